//! What the data image costs: what it holds beyond the plain one is nobody's.

use belljar::core::limits::MAX_MEMORY_BYTES;
use belljar::wasm::most_memory;
use belljar::{GuestImage, ImageChoice, Sandbox, SandboxError, Status};
use support::{Cells, Expect, Jar};

use crate::jar;

const LIMIT: u64 = 64_000_000;

fn small(image: ImageChoice) -> Jar {
    jar(image).with(|layer| layer.memory_bytes(LIMIT))
}

#[test]
fn the_same_code_uses_as_much_in_both_images() {
    let code = "x = bytearray(20_000_000)\nprint(len(x))";
    let used = |image| {
        let result = jar(image).run(code);
        result.printed("20000000\n");
        result.memory_used_bytes.expect("wasm knows")
    };
    let (plain, data) = (used(ImageChoice::Plain), used(ImageChoice::Data));
    assert!(plain > 20_000_000 && data > 20_000_000, "{plain} {data}");
    assert!(plain.abs_diff(data) < 12_000_000, "{plain} {data}");
}

#[test]
fn a_limit_below_the_images_size_leaves_as_much_room_as_it_does_in_the_plain_one() {
    // The image alone is larger than this limit.
    let array = |megabytes: u64| {
        let code = format!("import numpy as np\nprint(len(np.ones({megabytes}_000_000, 'u1')))");
        small(ImageChoice::Auto).run(&code)
    };
    array(20).printed("20000000\n");
    let result = array(60);
    result.ended(Status::OutOfMemory, -1);
    let notice = "OutOfMemory: more than 64000000 bytes of memory were wanted; \
                  raise memory_bytes to allow more\n";
    assert!(result.stderr.ends_with(notice), "{}", result.stderr);
    assert_eq!(result.meta.resource_limits.memory_bytes, Some(LIMIT));
    assert!(result.memory_used_bytes.expect("wasm knows") <= LIMIT + (4 << 20));
}

#[test]
fn too_little_and_too_much_are_refused_before_anything_runs() {
    let with = |bytes: u64| jar(ImageChoice::Data).with(|layer| layer.memory_bytes(bytes));
    let refused = |bytes: u64| match with(bytes).try_run("print(1)") {
        Err(SandboxError::PolicyValidation(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let plain = jar(ImageChoice::Plain).with(|layer| layer.memory_bytes(1_000_000));
    let Err(least) = plain.try_run("print(1)") else { panic!("it was not refused") };
    assert_eq!(refused(1_000_000), least.to_string(), "as little as in the plain image");
    let most = most_memory(GuestImage::Data).expect("the image is there");
    assert!(most < MAX_MEMORY_BYTES);
    let told = refused(MAX_MEMORY_BYTES);
    assert!(told.contains(&format!("must be at most {most} with this image")), "{told}");
    with(most).run("print(1)").printed("1\n");
}

#[test]
fn what_a_session_holds_goes_with_it_under_the_same_limit() {
    let jar = small(ImageChoice::Auto);
    let mut session = jar.session();
    session.run("import numpy as np\nheld = np.ones(15_000_000, 'u1')").kept(Status::Ok);
    let mut fork = session.fork().expect("a fork");
    fork.run("int(held.sum())").gave(15_000_000);
    fork.run("more = np.ones(60_000_000, 'u1')").rolled_back(Status::OutOfMemory);
    fork.run("int(held[:5].sum())").gave(5);
}
