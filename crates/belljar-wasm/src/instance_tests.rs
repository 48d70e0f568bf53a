use std::io::Write;
use std::time::{Duration, Instant};

use wasmtime::Module;

use super::*;
use crate::engine::slot_engine;
use crate::memory::{EXCEPTION_HEAP_BYTES, Image, SlotPool};
use crate::state::Birth;
use crate::wasi::Grant;

const IMAGE_BYTES: usize = 1 << 20;

/// Where the answer lies.
const ANSWER: usize = 32 * 1024;

const LAYOUT: Layout = Layout {
    interrupt_tripped: 0,
    any_tripped: 0,
    eval_breaker: 0,
    random_index: 0,
    random_state: 0,
    random_state_bytes: 0,
    request_buffer: 1024,
};

/// A guest whose user code is `body`, which leaves the answer, a number, on the stack.
fn guest(items: &str, body: &str) -> ReadyGuest {
    try_guest(items, body).unwrap()
}

fn try_guest(items: &str, body: &str) -> Result<ReadyGuest, EngineError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![0; IMAGE_BYTES]).unwrap();
    let slots = SlotPool::new(Image::new(file).unwrap()).unwrap();
    let engine = slot_engine(&slots)?;
    let module = format!(
        r#"(module
            (import "belljar" "phase" (func $phase (param i32)))
            (memory (export "memory") 16)
            {items}
            (func $body (result i32) {body})
            (func (export "belljar_alloc") (param i32) (result i32) (i32.const 0))
            (func (export "belljar_call") (param i32 i32) (result i64)
                (call $phase (i32.const 1))
                (i32.store (i32.const {ANSWER}) (call $body))
                (call $phase (i32.const 0))
                (i64.or (i64.shl (i64.const {ANSWER}) (i64.const 32)) (i64.const 4))))"#
    );
    let module =
        Module::new(&engine, wat::parse_str(module).unwrap()).map_err(EngineError::engine)?;
    let birth = Birth { image_bytes: IMAGE_BYTES, free_bytes: 0 };
    ReadyGuest::new(engine, &module, slots, LAYOUT, birth)
}

fn instance(guest: &ReadyGuest) -> Instance {
    let holdings = Holdings { wasi: Wasi::new(Grant::default()), desk: Desk::closed() };
    Instance::new(guest, holdings, 2 * IMAGE_BYTES as u64, Arc::default()).unwrap()
}

fn call(instance: &mut Instance, fuel: u64, timeout: Duration) -> Called {
    let control = Control::default();
    instance.call(b"{}", Turn::First, fuel, &mut Watch::new(&control, timeout)).unwrap()
}

/// How it ended, in words.
fn end(instance: &mut Instance, fuel: u64) -> String {
    let called = call(instance, fuel, Duration::from_secs(60));
    assert!(!called.memory_refused, "the heap of exceptions is not the guest's memory");
    assert_eq!(called.memory_peak_bytes, IMAGE_BYTES);
    match called.end {
        CallEnd::Answered(place) => {
            let answer = instance.answer(place).unwrap().try_into().unwrap();
            format!("answered {}", i32::from_le_bytes(answer))
        }
        CallEnd::OutOfFuel => "out of fuel".to_owned(),
        CallEnd::Crashed(message) => message,
        CallEnd::StackOverflow => "stack overflow".to_owned(),
        CallEnd::Nonsense | CallEnd::Exited(_) | CallEnd::OutputFlood | CallEnd::Stopped => {
            "another end".to_owned()
        }
    }
}

fn no_exception_waits(instance: &mut Instance) -> bool {
    instance.store.take_pending_exception().is_none()
}

const MUCH_FUEL: u64 = 1 << 40;

/// Throws its number; catches one; holds `count` at once and then calls `$then`.
const THROWING: &str = "
    (tag $oops (param i32))
    (func $throw (param i32) (throw $oops (local.get 0)))
    (func $catch (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $oops $caught) (call $throw (local.get 0)))
            (i32.const -1)))
    (func $hold (param $count i32)
        (local $held exnref)
        (if (i32.eqz (local.get $count)) (then (return (call $then))))
        (block $caught (result exnref)
            (try_table (catch_all_ref $caught) (call $throw (local.get $count)))
            (unreachable))
        (local.set $held)
        (call $hold (i32.sub (local.get $count) (i32.const 1)))
        (drop (ref.is_null (local.get $held))))
    (func $storm (param $count i32)
        (loop $again
            (drop (call $catch (local.get $count)))
            (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))";

const HARMLESS_THEN: &str = "(func $then)";

/// Four fifths of what there is room for.
const MANY_HELD: usize = EXCEPTION_HEAP_BYTES / 2 / 32 * 4 / 5;

fn throwing(then: &str, body: &str) -> ReadyGuest {
    guest(&format!("{THROWING}{then}"), body)
}

#[test]
fn an_exception_is_thrown_and_caught() {
    let guest = throwing(HARMLESS_THEN, "(call $catch (i32.const 7))");
    let mut instance = instance(&guest);
    assert_eq!(end(&mut instance, MUCH_FUEL), "answered 7");
    assert_eq!(end(&mut instance, MUCH_FUEL), "answered 7", "a second time");
    assert!(no_exception_waits(&mut instance));
}

#[test]
fn a_guest_that_does_not_throw_has_no_heap_for_exceptions() {
    let guest = guest("", "(i32.const 7)");
    let mut instance = instance(&guest);
    assert_eq!(instance.store.gc_heap_capacity(), 0);
    assert_eq!(end(&mut instance, MUCH_FUEL), "answered 7");
}

#[test]
fn the_slot_of_a_guest_that_throws_is_its_linear_memory() {
    let guest = throwing(HARMLESS_THEN, "(call $catch (i32.const 7))");
    let mut instance = instance(&guest);
    assert_eq!(instance.slot.size(), IMAGE_BYTES);
    assert_eq!(end(&mut instance, MUCH_FUEL), "answered 7");
    let state = instance.capture(false).unwrap();
    let mut other = self::instance(&guest);
    other.load(&state).unwrap();
    assert_eq!(other.memory.data(&other.store)[ANSWER], 7);
    assert_eq!(end(&mut other, MUCH_FUEL), "answered 7");
    drop((instance, other));
    assert!(guest.slots.idle_slots_are_pristine());
}

#[test]
fn an_exception_that_nothing_catches_is_a_crash() {
    let guest = throwing(HARMLESS_THEN, "(call $throw (i32.const 7)) (i32.const 0)");
    let mut instance = instance(&guest);
    assert_eq!(end(&mut instance, MUCH_FUEL), "an exception that nothing caught");
    assert!(no_exception_waits(&mut instance));
}

#[test]
fn a_catch_all_does_not_catch_the_end_of_the_fuel() {
    let guest = guest(
        "",
        "(loop $again
            (block $caught (try_table (catch_all $caught) (loop $on (br $on))))
            (br $again))
        (i32.const 0)",
    );
    assert_eq!(end(&mut instance(&guest), 1_000_000), "out of fuel");
}

#[test]
fn a_storm_of_exceptions_reuses_its_heap() {
    let guest = throwing(HARMLESS_THEN, "(call $storm (i32.const 1000000)) (i32.const 7)");
    let mut instance = instance(&guest);
    assert_eq!(end(&mut instance, MUCH_FUEL), "answered 7");
    assert_eq!(instance.store.gc_heap_capacity(), EXCEPTION_HEAP_BYTES);
}

#[test]
fn a_storm_of_exceptions_ends_with_its_fuel() {
    let guest = throwing(HARMLESS_THEN, "(call $storm (i32.const 0)) (i32.const 7)");
    let mut instance = instance(&guest);
    assert_eq!(end(&mut instance, 10_000_000), "out of fuel");
    assert_eq!(instance.store.gc_heap_capacity(), EXCEPTION_HEAP_BYTES);
}

#[test]
fn as_many_exceptions_as_there_is_room_for_can_be_held() {
    let body = format!("(call $hold (i32.const {MANY_HELD})) (i32.const 7)");
    let guest = throwing(HARMLESS_THEN, &body);
    assert_eq!(end(&mut instance(&guest), MUCH_FUEL), "answered 7");
}

#[test]
fn exceptions_held_by_frames_without_end_are_a_crash() {
    let guest = throwing(HARMLESS_THEN, "(call $hold (i32.const -1)) (i32.const 7)");
    let mut instance = instance(&guest);
    assert_eq!(end(&mut instance, MUCH_FUEL), "too many exceptions at once");
    assert_eq!(instance.store.gc_heap_capacity(), EXCEPTION_HEAP_BYTES);
    assert!(no_exception_waits(&mut instance));
}

#[test]
fn exceptions_held_by_a_table_are_a_crash() {
    let items = "
        (tag $oops (param i32 i64 f64))
        (table $held 20000 exnref)
        (func $keep (param $at i32) (local $exception exnref)
            (block $caught (result exnref)
                (try_table (catch_all_ref $caught)
                    (throw $oops (local.get $at) (i64.const 1) (f64.const 2)))
                (unreachable))
            (local.set $exception)
            (table.set $held (local.get $at) (local.get $exception)))";
    let body = "
        (local $at i32)
        (loop $again
            (call $keep (local.get $at))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $at) (i32.const 20000))))
        (i32.const 7)";
    let mut instance = instance(&guest(items, body));
    assert_eq!(end(&mut instance, MUCH_FUEL), "too many exceptions at once");
    assert_eq!(instance.store.gc_heap_capacity(), EXCEPTION_HEAP_BYTES);
}

/// The worst case: hardly any room is left, so that collections, which cost no fuel, are frequent,
/// and each copies much and walks a deep stack.
#[test]
fn a_storm_in_a_nearly_full_heap_heeds_its_deadline() {
    let then = "(func $deep (param i32)
            (if (local.get 0)
                (then (call $deep (i32.sub (local.get 0) (i32.const 1))))
                (else (call $storm (i32.const 0)))))
        (func $then (call $deep (i32.const 20000)))";
    let body = format!("(call $hold (i32.const {})) (i32.const 7)", MANY_HELD * 5 / 4 - 10);
    let guest = throwing(then, &body);
    let mut instance = instance(&guest);
    let start = Instant::now();
    let called = call(&mut instance, MUCH_FUEL, Duration::from_millis(200));
    assert!(matches!(called.end, CallEnd::Stopped));
    assert_eq!(called.stop, Some(StopCause::Timeout));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(no_exception_waits(&mut instance));
    drop(instance);
    assert!(guest.slots.idle_slots_are_pristine());
}

#[test]
fn objects_of_the_gc_proposal_are_refused() {
    let Err(error) = try_guest("(type $point (struct (field i32)))", "(i32.const 7)") else {
        panic!("a module with objects was accepted")
    };
    assert_eq!(
        error.to_string(),
        "the WebAssembly engine failed: failed to parse WebAssembly module: struct indexed types \
         not supported without the gc feature (at offset 0xb)"
    );
}
