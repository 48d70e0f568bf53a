//! The import functions: each decodes its arguments, asks [`Wasi`] and answers with an error number.

use belljar_core::limits::MAX_TRANSFER_BYTES;
use wasmtime::{Caller, Linker};

use super::errno::{Errno, Result};
use super::files::{NewTimes, WriteError};
use super::paths::{Open, PathAt};
use super::view::View;
use super::{Abort, Wasi};
use crate::state::State;

const MODULE: &str = "wasi_snapshot_preview1";

/// Runs `f` on the guest's memory and its WASI, and gives the guest the error number.
fn answer(
    mut caller: Caller<'_, State>,
    f: impl FnOnce(&mut Wasi, &mut View<'_>) -> Result<()>,
) -> i32 {
    with(&mut caller, f).map_or_else(|errno| i32::from(errno.0), |()| 0)
}

fn with<T>(
    caller: &mut Caller<'_, State>,
    f: impl FnOnce(&mut Wasi, &mut View<'_>) -> Result<T>,
) -> Result<T> {
    let memory = caller.data().memory.ok_or(Errno::FAULT)?;
    let (bytes, state) = memory.data_and_store_mut(caller);
    f(&mut state.wasi, &mut View(bytes))
}

/// A write may also end the guest.
fn answer_write(
    mut caller: Caller<'_, State>,
    written_out: u32,
    f: impl FnOnce(&mut Wasi, &View<'_>) -> std::result::Result<u32, WriteError>,
) -> wasmtime::Result<i32> {
    let mut abort = None;
    let outcome = with(&mut caller, |wasi, view| match f(wasi, view) {
        Ok(written) => view.write_u32(written_out, written),
        Err(WriteError::Errno(errno)) => Err(errno),
        Err(WriteError::Abort(end)) => {
            abort = Some(end);
            Ok(())
        }
    });
    match abort {
        Some(end) => Err(end.into()),
        None => Ok(outcome.map_or_else(|errno| i32::from(errno.0), |()| 0)),
    }
}

/// Writes NUL-terminated strings and a table of their addresses.
fn write_strings(view: &mut View<'_>, strings: &[String], table: u32, buffer: u32) -> Result<()> {
    let (mut entry, mut at) = (table, buffer);
    for string in strings {
        view.write_u32(entry, at)?;
        entry = entry.checked_add(4).ok_or(Errno::FAULT)?;
        view.write(at, string.as_bytes())?;
        at = u32::try_from(string.len())
            .ok()
            .and_then(|len| at.checked_add(len))
            .ok_or(Errno::FAULT)?;
        view.write(at, &[0])?;
        at = at.checked_add(1).ok_or(Errno::FAULT)?;
    }
    Ok(())
}

fn write_string_sizes(
    view: &mut View<'_>,
    strings: &[String],
    count: u32,
    bytes: u32,
) -> Result<()> {
    view.write_len(count, strings.len())?;
    view.write_len(bytes, strings.iter().map(|string| string.len() + 1).sum())
}

/// Defines every function of WASI preview 1.
pub fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    add_surroundings(linker)?;
    add_descriptors(linker)?;
    add_paths(linker)?;
    add_refusals(linker)
}

type C<'a> = Caller<'a, State>;

fn add_surroundings(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "args_get", |c: C<'_>, table: u32, buffer: u32| {
        answer(c, |wasi, view| write_strings(view, &wasi.args, table, buffer))
    })?;
    linker.func_wrap(MODULE, "args_sizes_get", |c: C<'_>, count: u32, bytes: u32| {
        answer(c, |wasi, view| write_string_sizes(view, &wasi.args, count, bytes))
    })?;
    linker.func_wrap(MODULE, "environ_get", |c: C<'_>, table: u32, buffer: u32| {
        answer(c, |wasi, view| write_strings(view, &wasi.env, table, buffer))
    })?;
    linker.func_wrap(MODULE, "environ_sizes_get", |c: C<'_>, count: u32, bytes: u32| {
        answer(c, |wasi, view| write_string_sizes(view, &wasi.env, count, bytes))
    })?;
    linker.func_wrap(MODULE, "clock_res_get", |c: C<'_>, id: u32, out: u32| {
        answer(c, |wasi, view| {
            wasi.clock.now(id)?;
            view.write_u64(out, 1_000)
        })
    })?;
    linker.func_wrap(
        MODULE,
        "clock_time_get",
        |c: C<'_>, id: u32, _precision: u64, out: u32| {
            answer(c, |wasi, view| {
                let now = wasi.clock.now(id)?;
                view.write_u64(out, now)
            })
        },
    )?;
    linker.func_wrap(MODULE, "random_get", |c: C<'_>, out: u32, len: u32| {
        answer(c, |wasi, view| {
            if len > MAX_TRANSFER_BYTES {
                return Err(Errno::INVAL);
            }
            wasi.random.fill(view.bytes_mut(out, len)?)
        })
    })?;
    linker.func_wrap(MODULE, "sched_yield", |_: C<'_>| 0i32)?;
    linker.func_wrap(MODULE, "proc_exit", |_: C<'_>, code: u32| -> wasmtime::Result<()> {
        // A process's exit code has eight bits.
        Err(Abort::Exit(i32::from(code.to_le_bytes()[0])).into())
    })?;
    linker.func_wrap_async(
        MODULE,
        "poll_oneoff",
        |mut c: C<'_>, (subscriptions, out, count, count_out): (u32, u32, u32, u32)| {
            Box::new(async move {
                let wait =
                    match with(&mut c, |wasi, view| wasi.plan_wait(view, subscriptions, count)) {
                        Ok(wait) => wait,
                        Err(errno) => return i32::from(errno.0),
                    };
                let control = std::sync::Arc::clone(&c.data().control);
                wait.finish(&control).await;
                answer(c, |_, view| wait.report(view, out, count_out))
            })
        },
    )?;
    Ok(())
}

fn add_descriptors(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "fd_read", |c: C<'_>, fd: u32, iovs: u32, count: u32, out: u32| {
        answer(c, |wasi, view| {
            let read = wasi.fd_read(view, fd, iovs, count, None)?;
            view.write_u32(out, read)
        })
    })?;
    linker.func_wrap(
        MODULE,
        "fd_pread",
        |c: C<'_>, fd: u32, iovs: u32, count: u32, at: u64, out: u32| {
            answer(c, |wasi, view| {
                let read = wasi.fd_read(view, fd, iovs, count, Some(at))?;
                view.write_u32(out, read)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_write",
        |c: C<'_>, fd: u32, iovs: u32, count: u32, out: u32| {
            answer_write(c, out, |wasi, view| wasi.fd_write(view, fd, iovs, count, None))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_pwrite",
        |c: C<'_>, fd: u32, iovs: u32, count: u32, at: u64, out: u32| {
            answer_write(c, out, |wasi, view| wasi.fd_write(view, fd, iovs, count, Some(at)))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_seek",
        |c: C<'_>, fd: u32, offset: i64, whence: u32, out: u32| {
            answer(c, |wasi, view| {
                let position = wasi.fd_seek(fd, offset, whence)?;
                view.write_u64(out, position)
            })
        },
    )?;
    linker.func_wrap(MODULE, "fd_tell", |c: C<'_>, fd: u32, out: u32| {
        answer(c, |wasi, view| {
            let position = wasi.fd_seek(fd, 0, 1)?;
            view.write_u64(out, position)
        })
    })?;
    linker.func_wrap(MODULE, "fd_close", |c: C<'_>, fd: u32| {
        answer(c, |wasi, _| wasi.fd_close(fd))
    })?;
    linker.func_wrap(MODULE, "fd_renumber", |c: C<'_>, from: u32, to: u32| {
        answer(c, |wasi, _| wasi.fd_renumber(from, to))
    })?;
    linker
        .func_wrap(MODULE, "fd_sync", |c: C<'_>, fd: u32| answer(c, |wasi, _| wasi.fd_sync(fd)))?;
    linker.func_wrap(MODULE, "fd_datasync", |c: C<'_>, fd: u32| {
        answer(c, |wasi, _| wasi.fd_sync(fd))
    })?;
    linker.func_wrap(
        MODULE,
        "fd_advise",
        |c: C<'_>, fd: u32, _at: u64, _len: u64, _advice: u32| {
            answer(c, |wasi, _| wasi.table.get(fd).map(|_| ()))
        },
    )?;
    linker.func_wrap(MODULE, "fd_allocate", |c: C<'_>, fd: u32, at: u64, len: u64| {
        answer(c, |wasi, _| wasi.fd_allocate(fd, at, len))
    })?;
    linker.func_wrap(MODULE, "fd_fdstat_get", |c: C<'_>, fd: u32, out: u32| {
        answer(c, |wasi, view| wasi.fd_stat(view, fd, out))
    })?;
    linker.func_wrap(MODULE, "fd_fdstat_set_flags", |c: C<'_>, fd: u32, flags: u32| {
        answer(c, |wasi, _| wasi.fd_set_flags(fd, flags))
    })?;
    linker.func_wrap(MODULE, "fd_filestat_get", |c: C<'_>, fd: u32, out: u32| {
        answer(c, |wasi, view| wasi.fd_filestat(view, fd, out))
    })?;
    linker.func_wrap(MODULE, "fd_filestat_set_size", |c: C<'_>, fd: u32, size: u64| {
        answer(c, |wasi, _| wasi.fd_set_size(fd, size))
    })?;
    linker.func_wrap(
        MODULE,
        "fd_filestat_set_times",
        |c: C<'_>, fd: u32, atime: u64, mtime: u64, flags: u32| {
            answer(c, |wasi, _| wasi.fd_set_times(fd, &NewTimes::from_wasi(atime, mtime, flags)?))
        },
    )?;
    linker.func_wrap(MODULE, "fd_prestat_get", |c: C<'_>, fd: u32, out: u32| {
        answer(c, |wasi, view| {
            let len = wasi.fd_preopened_name(fd)?.len();
            // The tag 0: a directory.
            view.write_u32(out, 0)?;
            view.write_len(out.checked_add(4).ok_or(Errno::FAULT)?, len)
        })
    })?;
    linker.func_wrap(MODULE, "fd_prestat_dir_name", |c: C<'_>, fd: u32, out: u32, len: u32| {
        answer(c, |wasi, view| {
            let name = wasi.fd_preopened_name(fd)?.as_bytes();
            if name.len() > len as usize { Err(Errno::NAMETOOLONG) } else { view.write(out, name) }
        })
    })?;
    linker.func_wrap(
        MODULE,
        "fd_readdir",
        |c: C<'_>, fd: u32, buffer: u32, len: u32, cookie: u64, out: u32| {
            answer(c, |wasi, view| {
                let used = wasi.fd_readdir(view, fd, buffer, len, cookie)?;
                view.write_u32(out, used)
            })
        },
    )?;
    Ok(())
}

fn add_paths(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        MODULE,
        "path_open",
        |c: C<'_>,
         fd: u32,
         lookup: u32,
         path: u32,
         len: u32,
         oflags: u32,
         rights: u64,
         _: u64,
         flags: u32,
         out: u32| {
            answer(c, |wasi, view| {
                let opened = wasi.path_open(
                    view,
                    fd,
                    (path, len),
                    &Open::from_wasi(lookup, oflags, rights, flags),
                )?;
                view.write_u32(out, opened)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_filestat_get",
        |c: C<'_>, fd: u32, lookup: u32, path: u32, len: u32, out: u32| {
            answer(c, |wasi, view| wasi.path_filestat(view, fd, lookup, (path, len), out))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_filestat_set_times",
        |c: C<'_>,
         fd: u32,
         lookup: u32,
         path: u32,
         len: u32,
         atime: u64,
         mtime: u64,
         flags: u32| {
            answer(c, |wasi, view| {
                let times = NewTimes::from_wasi(atime, mtime, flags)?;
                wasi.path_set_times(view, fd, lookup, (path, len), &times)
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_create_directory",
        |c: C<'_>, fd: u32, path: u32, len: u32| {
            answer(c, |wasi, view| wasi.path_create_directory(view, fd, (path, len)))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_remove_directory",
        |c: C<'_>, fd: u32, path: u32, len: u32| {
            answer(c, |wasi, view| wasi.path_remove_directory(view, fd, (path, len)))
        },
    )?;
    linker.func_wrap(MODULE, "path_unlink_file", |c: C<'_>, fd: u32, path: u32, len: u32| {
        answer(c, |wasi, view| wasi.path_unlink(view, fd, (path, len)))
    })?;
    linker.func_wrap(
        MODULE,
        "path_rename",
        |c: C<'_>, from_fd: u32, from: u32, from_len: u32, to_fd: u32, to: u32, to_len: u32| {
            answer(c, |wasi, view| {
                wasi.path_rename(
                    view,
                    PathAt { fd: from_fd, path: (from, from_len) },
                    PathAt { fd: to_fd, path: (to, to_len) },
                )
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_link",
        |c: C<'_>,
         from_fd: u32,
         _lookup: u32,
         from: u32,
         from_len: u32,
         to_fd: u32,
         to: u32,
         to_len: u32| {
            answer(c, |wasi, view| {
                wasi.path_link(
                    view,
                    PathAt { fd: from_fd, path: (from, from_len) },
                    PathAt { fd: to_fd, path: (to, to_len) },
                )
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_symlink",
        |c: C<'_>, target: u32, target_len: u32, fd: u32, path: u32, len: u32| {
            answer(c, |wasi, view| wasi.path_symlink(view, (target, target_len), fd, (path, len)))
        },
    )?;
    linker.func_wrap(
        MODULE,
        "path_readlink",
        |c: C<'_>, fd: u32, path: u32, len: u32, buffer: u32, buffer_len: u32, out: u32| {
            answer(c, |wasi, view| {
                let used = wasi.path_readlink(view, fd, (path, len), buffer, buffer_len)?;
                view.write_u32(out, used)
            })
        },
    )?;
    Ok(())
}

/// What exists in WASI but not in a sandbox.
fn add_refusals(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    const NOTSUP: i32 = Errno::NOTSUP.0 as i32;
    const NOSYS: i32 = Errno::NOSYS.0 as i32;
    linker.func_wrap(MODULE, "proc_raise", |_: C<'_>, _signal: u32| NOSYS)?;
    linker.func_wrap(
        MODULE,
        "fd_fdstat_set_rights",
        |_: C<'_>, _fd: u32, _base: u64, _inheriting: u64| NOTSUP,
    )?;
    linker.func_wrap(MODULE, "sock_accept", |_: C<'_>, _fd: u32, _flags: u32, _out: u32| NOTSUP)?;
    linker.func_wrap(
        MODULE,
        "sock_recv",
        |_: C<'_>, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32| NOTSUP,
    )?;
    linker.func_wrap(MODULE, "sock_send", |_: C<'_>, _: u32, _: u32, _: u32, _: u32, _: u32| {
        NOTSUP
    })?;
    linker.func_wrap(MODULE, "sock_shutdown", |_: C<'_>, _fd: u32, _how: u32| NOTSUP)?;
    Ok(())
}
