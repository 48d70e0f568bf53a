use std::io::Write;

use proptest::prelude::*;

use super::super::slots::{Image, SlotCreator};
use super::*;
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

const IMAGE_PAGES: usize = 64;
const IMAGE_LEN: usize = IMAGE_PAGES * PAGE;
const CAPACITY: usize = 4 * IMAGE_LEN;

fn pool() -> Arc<SlotPool> {
    let contents: Vec<u8> =
        (0..IMAGE_LEN).map(|index| (index / PAGE * 31 + index % 251).to_le_bytes()[0]).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&contents).unwrap();
    SlotPool::new(Image::new(file).unwrap()).unwrap()
}

struct Tenant {
    slot: Box<dyn LinearMemory>,
    memory: Arc<SlotMemory>,
}

impl Tenant {
    fn new(pool: &Arc<SlotPool>, size: usize) -> Tenant {
        let ty = MemoryType::new(1, None);
        let creator = SlotCreator(Arc::clone(pool));
        let mut slot = creator.new_memory(ty, IMAGE_LEN, None, Some(CAPACITY), PAGE).unwrap();
        slot.grow_to(size).unwrap();
        Tenant { slot, memory: super::super::take_newest().unwrap() }
    }

    fn of(pool: &Arc<SlotPool>, state: &MemoryState) -> Tenant {
        let tenant = Tenant::new(pool, state.size());
        // SAFETY: only this thread uses the slot.
        unsafe { tenant.memory.apply(state) }.unwrap();
        tenant
    }

    fn write(&mut self, at: usize, len: usize, byte: u8) {
        let start = at % self.slot.byte_size();
        let len = len.min(self.slot.byte_size() - start);
        self.memory.touched();
        // SAFETY: the range lies in the accessible part of a slot that only we use.
        unsafe { self.slot.as_ptr().add(start).write_bytes(byte, len) };
    }

    fn capture(&self, settle: bool) -> MemoryState {
        // SAFETY: only this thread uses the slot.
        unsafe { self.memory.capture(settle) }.unwrap()
    }

    fn contents(&self) -> Vec<u8> {
        // SAFETY: the slot is alive, its first `byte_size` bytes are readable, nobody writes them.
        unsafe { std::slice::from_raw_parts(self.slot.as_ptr(), self.slot.byte_size()) }.to_vec()
    }
}

/// Through what a snapshot file holds.
fn through_pages(pool: &Arc<SlotPool>, state: &MemoryState) -> MemoryState {
    let mut pages = Vec::new();
    state
        .for_each_page(pool, |at, page| {
            pages.push((at, page.to_vec()));
            Ok(())
        })
        .unwrap();
    assert!(pages.is_sorted_by_key(|(at, _)| *at));
    let (addresses, pages): (Vec<usize>, Vec<_>) = pages.into_iter().unzip();
    MemoryState::from_pages(pool, state.size(), &addresses, pages.concat()).unwrap()
}

#[derive(Clone, Debug)]
enum Act {
    Write { at: usize, len: usize, byte: u8 },
    Grow { pages: usize },
    Fork,
    Rest,
    Checkpoint,
    Rollback,
    ThroughFile,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..CAPACITY, 1..120 * PAGE, any::<u8>())
            .prop_map(|(at, len, byte)| Act::Write { at, len, byte }),
        1 => (1..16usize).prop_map(|pages| Act::Grow { pages }),
        2 => Just(Act::Fork),
        1 => Just(Act::Rest),
        2 => Just(Act::Checkpoint),
        1 => Just(Act::Rollback),
        1 => Just(Act::ThroughFile),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a session does, it, its parents and its forks see what they should.
    #[test]
    fn forks_and_checkpoints_hold_what_was_there(acts in prop::collection::vec(act(), 1..40)) {
        let pool = pool();
        let mut tenant = Tenant::new(&pool, IMAGE_LEN);
        let mut checkpoint = (tenant.capture(false), tenant.contents());
        let mut parents: Vec<(Tenant, Vec<u8>)> = Vec::new();
        for act in acts {
            match act {
                Act::Write { at, len, byte } => tenant.write(at, len, byte),
                Act::Grow { pages } => {
                    let size = tenant.slot.byte_size() + pages * PAGE;
                    tenant.slot.grow_to(size.min(CAPACITY)).unwrap();
                }
                Act::Fork => {
                    let before = tenant.contents();
                    let fork = Tenant::of(&pool, &tenant.capture(true));
                    prop_assert!(fork.contents() == before);
                    prop_assert!(tenant.contents() == before, "settling changed the parent");
                    parents.push((std::mem::replace(&mut tenant, fork), before));
                }
                Act::Rest => {
                    let before = tenant.contents();
                    // SAFETY: only this thread uses the slot.
                    unsafe { tenant.memory.rest() }.unwrap();
                    prop_assert!(tenant.contents() == before);
                }
                Act::Checkpoint => checkpoint = (tenant.capture(false), tenant.contents()),
                Act::Rollback => {
                    tenant = Tenant::of(&pool, &checkpoint.0);
                    prop_assert!(tenant.contents() == checkpoint.1);
                }
                Act::ThroughFile => {
                    let state = through_pages(&pool, &tenant.capture(true));
                    let before = tenant.contents();
                    tenant = Tenant::of(&pool, &state);
                    prop_assert!(tenant.contents() == before);
                }
            }
        }
        for (parent, contents) in &parents {
            prop_assert!(parent.contents() == *contents, "a fork wrote into its parent");
        }
        drop((tenant, parents, checkpoint));
        prop_assert!(pool.idle_slots_are_pristine());
    }
}

#[test]
fn a_settled_session_is_saved_by_what_it_wrote_since() {
    let pool = pool();
    let mut tenant = Tenant::new(&pool, CAPACITY);
    tenant.write(IMAGE_LEN, 2 * IMAGE_LEN, 1);
    assert_eq!(tenant.capture(true).copied.contents.len(), 0);
    tenant.write(IMAGE_LEN + 5 * PAGE, 1, 2);
    let state = tenant.capture(false);
    assert_eq!(state.copied.contents.len(), PAGE);
    assert_eq!(state.held_bytes(), (2 * IMAGE_LEN + PAGE) as u64);
}

#[test]
fn layers_do_not_grow_without_end() {
    let pool = pool();
    let mut tenant = Tenant::new(&pool, CAPACITY);
    for round in 0..200u8 {
        tenant.write(IMAGE_LEN + usize::from(round % 3) * PAGE, 100 * PAGE, round);
        tenant.capture(true);
    }
    let (shown, held) = tenant.memory.extents().weigh();
    assert!(held <= 2 * shown + MAX_WASTE + (200 * PAGE) as u64, "{held} held for {shown}");
}
