//! What a sandbox does not offer. Each says so in one sentence, as an exception of the type that
//! programs with a fallback expect.

use belljar::Status;
use support::{Expect, Jar};

/// `name: code => exception, what is not offered;`
macro_rules! refused {
    ($($name:ident: $code:expr => $exception:literal, $what:literal;)*) => {
        $(
            #[test]
            fn $name() {
                check($code, $exception, $what);
            }
        )*
    };
}

#[track_caller]
fn check(code: &str, exception: &str, what: &str) {
    let result = Jar::new().run(code);
    let error = result.ended(Status::Error, 1).error.as_ref().expect("an error");
    let sentence = format!("the Belljar sandbox does not offer {what}");
    assert_eq!(error.name, exception, "{error:?}");
    assert!(error.message.contains(&sentence), "{error:?}");
    assert!(!error.traceback.contains("belljar_guest"), "the driver shows: {}", error.traceback);
}

refused! {
    thread: "import threading\nthreading.Thread(target=print).start()"
        => "RuntimeError", "threads";
    timer: "import threading\nthreading.Timer(1, print).start()" => "RuntimeError", "threads";
    thread_pool: "from concurrent.futures import ThreadPoolExecutor as P\nP().submit(print)"
        => "RuntimeError", "threads";
    low_level_thread: "import _thread\n_thread.start_new_thread(print, ())"
        => "RuntimeError", "threads";
    process_pool: "from concurrent.futures import ProcessPoolExecutor as P\nP()"
        => "OSError", "other processes";
    subprocess_run: "import subprocess\nsubprocess.run(['ls'])" => "OSError", "other processes";
    subprocess_shell: "import subprocess\nsubprocess.check_output('ls', shell=True)"
        => "OSError", "other processes";
    os_system: "import os\nos.system('ls')" => "OSError", "other processes";
    os_popen: "import os\nos.popen('ls')" => "OSError", "other processes";
    asyncio_subprocess: "import asyncio\nawait asyncio.create_subprocess_exec('ls')"
        => "OSError", "other processes";
    multiprocessing_process: "import multiprocessing as m\nm.Process(target=print).start()"
        => "OSError", "other processes";
    multiprocessing_pool: "import multiprocessing as m\nm.Pool(2)" => "OSError", "other processes";
    multiprocessing_queue: "from multiprocessing import Queue\nQueue()"
        => "OSError", "other processes";
    socket: "import socket\nsocket.socket()" => "PermissionError", "network access";
    connection: "import socket\nsocket.create_connection(('example.com', 80))"
        => "PermissionError", "network access";
    name_lookup: "import socket\nsocket.gethostbyname('localhost')"
        => "PermissionError", "network access";
    urlopen: "import urllib.request\nurllib.request.urlopen('http://example.com')"
        => "URLError", "network access";
    urlopen_https: "import urllib.request\nurllib.request.urlopen('https://example.com')"
        => "URLError", "network access";
    http_client: "import http.client\nhttp.client.HTTPConnection('example.com').request('GET', '/')"
        => "PermissionError", "network access";
    http_server: "import http.server\nhttp.server.HTTPServer(('', 80), None)"
        => "PermissionError", "network access";
    smtp: "import smtplib\nsmtplib.SMTP('example.com')" => "PermissionError", "network access";
    asyncio_connection: "import asyncio\nawait asyncio.open_connection('example.com', 80)"
        => "PermissionError", "network access";
    ssl: "import ssl" => "ModuleNotFoundError", "network access";
    ctypes: "import ctypes" => "ModuleNotFoundError", "native code";
    mmap: "import mmap" => "ModuleNotFoundError", "memory-mapped files";
    fcntl: "import fcntl" => "ModuleNotFoundError", "file locks and descriptor control";
    pwd: "import pwd" => "ModuleNotFoundError", "user accounts";
    resource: "import resource" => "ModuleNotFoundError", "control of its own limits";
    tkinter: "import tkinter" => "ModuleNotFoundError", "a display";
    curses: "import curses" => "ModuleNotFoundError", "a terminal";
    pip: "import pip" => "ModuleNotFoundError", "installing packages from inside";
}

#[test]
fn a_program_with_a_fallback_takes_it() {
    let code = "try:
    import fcntl
except ImportError:
    fcntl = None
try:
    import threading
    threading.Thread(target=print).start()
except RuntimeError:
    print('no threads', fcntl)";
    Jar::new().run(code).printed("no threads None\n");
}

#[test]
fn a_module_nobody_knows_is_plainly_missing() {
    Jar::new().run("import left_pad").raised("ModuleNotFoundError", "No module named 'left_pad'");
}
