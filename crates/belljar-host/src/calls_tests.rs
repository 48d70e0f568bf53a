use super::*;

/// Answers at once what is in its list, keeps the rest.
struct Prompt(Mutex<Vec<Reply>>);

impl CallHost for Prompt {
    fn begin(&self, wish: Wish, reply: Reply) {
        match wish {
            Wish::Tool(call) if call.name == "echo" => reply.send(Ok(call.args.into())),
            Wish::Tool(call) if call.name == "panics" => drop(reply),
            Wish::Tool(_) | Wish::Input { .. } => self.0.lock().unwrap().push(reply),
        }
    }

    fn offer(&self, tool: &str) -> Offer {
        match tool {
            "none" => Offer::None,
            "approve" => Offer::Later,
            _ => Offer::Now,
        }
    }
}

fn desk(calls: u64, bytes: u64) -> (Desk, Arc<Prompt>) {
    let host = Arc::new(Prompt(Mutex::default()));
    (Desk::new(Some(Arc::clone(&host) as Arc<dyn CallHost>), ToolLimits { calls, bytes }), host)
}

fn call(id: u64, name: &str) -> ToolCall {
    ToolCall { id, name: name.to_owned(), args: vec![id.into()], ..ToolCall::default() }
}

fn size(bytes: usize) -> Size {
    Size { bytes, weight: bytes }
}

#[test]
fn begun_calls_end_in_any_order_and_are_told_once() {
    let (mut desk, host) = desk(10, 1000);
    desk.start(call(1, "slow"), size(10), false).unwrap();
    desk.start(call(2, "echo"), size(10), false).unwrap();
    assert_eq!(desk.take_ended(), [(2, Ok(serde_json::json!([2])))]);
    assert!(desk.has_running());
    host.0.lock().unwrap().remove(0).send(Ok("late".into()));
    assert_eq!(desk.take_ended(), [(1, Ok("late".into()))]);
    assert!(desk.take_ended().is_empty() && !desk.has_running());
    assert_eq!(desk.usage(), ToolUsage { calls: 2, bytes: 29, depth: 0 });
}

#[test]
fn a_tool_that_breaks_off_is_a_failure_of_its_call() {
    let (mut desk, _) = desk(10, 1000);
    desk.start(call(1, "panics"), size(10), false).unwrap();
    assert_eq!(desk.take_ended(), [(1, Err(ToolFailure::new("the tool broke off")))]);
}

#[test]
fn more_calls_or_bytes_than_allowed_are_refused() {
    let (mut desk, _) = desk(2, 30);
    desk.start(call(1, "echo"), size(10), false).unwrap();
    assert!(
        desk.start(call(2, "echo"), size(25), false)
            .unwrap_err()
            .message
            .contains("max_tool_bytes")
    );
    assert!(
        desk.start(call(3, "echo"), size(1), false).unwrap_err().message.contains("max_tool_calls")
    );
}

#[test]
fn a_result_over_the_limit_is_a_failure() {
    let (mut desk, host) = desk(2, 30);
    desk.start(call(1, "slow"), size(10), false).unwrap();
    host.0.lock().unwrap().remove(0).send(Ok("x".repeat(100).into()));
    let ended = desk.take_ended();
    assert!(
        matches!(&ended[..], [(1, Err(failure))] if failure.message.contains("max_tool_bytes"))
    );
}

#[test]
fn what_comes_after_the_execution_reaches_nobody() {
    let (mut desk, host) = desk(10, 1000);
    desk.start(call(1, "slow"), size(10), false).unwrap();
    let reply = host.0.lock().unwrap().remove(0);
    let unwanted = reply.unwanted();
    desk.end_execution();
    assert!(unwanted.load(Ordering::Relaxed));
    reply.send(Ok("too late".into()));
    let told = desk.take_ended();
    assert!(matches!(&told[..], [(1, Err(_))]), "the guest learns that it has ended");
}

#[test]
fn deferred_calls_survive_being_saved_and_take_one_answer() {
    let (mut first, _) = desk(10, 1000);
    assert_eq!(first.start(call(7, "approve"), size(10), false), Ok(None));
    assert!(first.start(call(8, "approve"), size(10), true).is_err(), "it has to be awaited");
    let json = serde_json::to_string(&first.save()).unwrap();
    let (mut second, _) = desk(10, 1000);
    second.restore(&serde_json::from_str(&json).unwrap());
    assert_eq!(second.deferred().map(|call| call.id).collect::<Vec<_>>(), [7]);
    assert_eq!(second.usage().calls, 2);
    assert!(second.answer(7, Ok(true.into())));
    assert!(!second.answer(7, Ok(true.into())) && !second.answer(99, Ok(true.into())));
    assert_eq!(second.take_ended(), [(7, Ok(true.into()))]);
}

#[test]
fn unknown_tools_are_named_in_the_refusal() {
    let (mut desk, _) = desk(10, 1000);
    let long = "none".to_owned() + &"\u{e9}".repeat(100);
    assert!(desk.start(call(1, "none"), size(1), true).unwrap_err().message.contains("none"));
    assert!(desk.start(call(2, &long), size(1), true).is_ok(), "a name is only a name");
}

#[test]
fn messages_that_would_unpack_to_far_more_than_they_are_long_are_refused() {
    let bomb = format!(r#"{{"do":"call","name":"x","args":[{}0]}}"#, r#"{"":1},"#.repeat(100_000));
    assert!(matches!(Message::parse(bomb.as_bytes()), Err(Unreadable::TooLarge)));
    let text = format!(r#"{{"do":"call","name":"x","args":["{}"]}}"#, ",[{".repeat(1_000_000));
    assert!(Message::parse(text.as_bytes()).is_ok(), "text may hold anything");
    let deep =
        format!(r#"{{"do":"call","name":"x","args":[{}{}]}}"#, "[".repeat(100), "]".repeat(100));
    assert!(Message::parse(deep.as_bytes()).is_err(), "it could not be saved");
    for nonsense in ["", "{}", "[]", r#"{"do":"fly"}"#, r#"{"do":"begin","id":-1,"name":"x"}"#] {
        let parsed = Message::parse(nonsense.as_bytes());
        assert!(matches!(parsed, Err(Unreadable::Nonsense)), "{nonsense}");
    }
}

#[test]
fn calls_that_are_kept_weigh_no_more_than_allowed_together() {
    let (mut desk, _) = desk(1000, u64::MAX);
    let heavy = Size { bytes: 10, weight: MAX_KEPT_CALL_BYTES / 3 };
    for id in 1..=3 {
        desk.start(call(id, if id == 1 { "approve" } else { "slow" }), heavy, false).unwrap();
    }
    assert!(desk.start(call(4, "slow"), heavy, false).is_err());
    desk.drop_call(1);
    assert!(desk.start(call(5, "slow"), heavy, false).is_ok());
}
