use std::io::Write;

use proptest::prelude::*;

use super::*;

const IMAGE_PAGES: usize = 64;
const IMAGE_LEN: usize = IMAGE_PAGES * PAGE;
const CAPACITY: usize = 4 * IMAGE_LEN;
const GUARD: usize = PAGE;

/// An image in which no two pages are alike, so that a page put back in the wrong place shows.
fn contents() -> Vec<u8> {
    (0..IMAGE_LEN).map(|index| (index / PAGE * 31 + index % 251).to_le_bytes()[0]).collect()
}

fn pool() -> Arc<SlotPool> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&contents()).unwrap();
    SlotPool::new(Image::new(file).unwrap()).unwrap()
}

/// What the next tenant would see: the image, then `grown` bytes of new memory.
fn seen_by_next_tenant(pool: &Arc<SlotPool>, grown: usize) -> Vec<u8> {
    let mut slot = pool.take(CAPACITY, GUARD).unwrap();
    slot.grow_to(IMAGE_LEN + grown).unwrap();
    // SAFETY: the slot is alive, its first `byte_size` bytes are readable, nobody writes them.
    unsafe { std::slice::from_raw_parts(slot.as_ptr(), slot.byte_size()) }.to_vec()
}

/// What a tenant does to its memory.
#[derive(Clone, Debug)]
enum Act {
    Write { at: usize, len: usize, byte: u8 },
    Grow { pages: usize },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..CAPACITY, 1..5 * PAGE, any::<u8>()).prop_map(|(at, len, byte)| Act::Write {
            at,
            len,
            byte
        }),
        (0..IMAGE_PAGES).prop_map(|pages| Act::Grow { pages }),
    ]
}

fn live_through(slot: &mut Slot, acts: &[Act]) {
    for act in acts {
        let size = slot.byte_size();
        match *act {
            Act::Grow { pages } => slot.grow_to((size + pages * PAGE).min(CAPACITY)).unwrap(),
            Act::Write { at, len, byte } => {
                let start = at % size;
                let len = len.min(size - start);
                // SAFETY: the range lies in the accessible part of a slot that only we use.
                unsafe { slot.as_ptr().add(start).write_bytes(byte, len) };
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_recycled_slot_is_the_image_and_then_zeros(
        tenants in prop::collection::vec(prop::collection::vec(act(), 0..40), 1..6)
    ) {
        let pool = pool();
        for acts in &tenants {
            let mut slot = pool.take(CAPACITY, GUARD).unwrap();
            live_through(&mut slot, acts);
            drop(slot);
            let seen = seen_by_next_tenant(&pool, CAPACITY - IMAGE_LEN);
            prop_assert!(seen[..IMAGE_LEN] == contents()[..], "the image part differs");
            prop_assert!(seen[IMAGE_LEN..].iter().all(|byte| *byte == 0), "the grown part is not zero");
        }
        prop_assert_eq!(pool.idle.len(), 1, "one slot was recycled throughout");
    }
}

#[test]
fn more_pages_than_are_kept_are_reset_too() {
    let len = 2 * KEPT_PAGES * PAGE;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; len]).unwrap();
    let pool = SlotPool::new(Image::new(file).unwrap()).unwrap();
    let slot = pool.take(len, GUARD).unwrap();
    // SAFETY: the slot is alive and only we use it.
    unsafe { slot.as_ptr().write_bytes(9, len) };
    drop(slot);
    let slot = pool.take(len, GUARD).unwrap();
    // SAFETY: the slot is alive, its first `len` bytes are readable, nobody writes them.
    let seen = unsafe { std::slice::from_raw_parts(slot.as_ptr(), len) };
    assert!(seen.iter().all(|byte| *byte == 7));
}

#[test]
fn a_secret_of_one_tenant_is_never_seen_by_another_under_concurrency() {
    let pool = pool();
    std::thread::scope(|scope| {
        for thread in 1..=4u8 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..200usize {
                    let mut slot = pool.take(CAPACITY, GUARD).unwrap();
                    slot.grow_to(IMAGE_LEN + PAGE).unwrap();
                    // SAFETY: the slot is alive and only this thread uses it.
                    let memory =
                        unsafe { std::slice::from_raw_parts_mut(slot.as_ptr(), slot.byte_size()) };
                    assert!(memory[..IMAGE_LEN] == contents()[..]);
                    assert!(memory[IMAGE_LEN..].iter().all(|byte| *byte == 0));
                    memory[round % IMAGE_LEN..][..100].fill(thread);
                    memory[IMAGE_LEN..].fill(thread);
                }
            });
        }
    });
}

#[test]
fn a_memory_grows_within_its_reservation_only() {
    let pool = pool();
    let mut slot = pool.take(CAPACITY, GUARD).unwrap();
    assert!(slot.grow_to(CAPACITY + PAGE).is_err());
    assert!(slot.grow_to(IMAGE_LEN - PAGE).is_err());
    assert_eq!(slot.byte_size(), IMAGE_LEN);
    assert!(slot.grow_to(CAPACITY).is_ok());
}

#[test]
fn modules_made_for_another_image_are_refused() {
    let creator = SlotCreator(pool());
    let ty = MemoryType::new(1, None);
    let refused = creator.new_memory(ty, PAGE, None, Some(CAPACITY), GUARD).err().unwrap();
    assert_eq!(refused, "the module wants 4096 bytes of memory, the image has 262144");
}
