//! The recursive language model with a scripted model and real guests.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops where it fails")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar::tools::llm::{Cancelled, LanguageModel, Message, Rlm};
use belljar::{
    ExecutionPolicy, PolicyLayer, Preset, RuntimeType, Sandbox, SandboxConfig, SandboxResult,
    ToolFailure, Tools, create_sandbox,
};
use serde_json::{Value, json};

/// Says what it was told to say, and remembers what it was told.
struct Script {
    answers: Mutex<Vec<&'static str>>,
    heard: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&'static str]) -> Arc<Self> {
        let answers = Mutex::new(answers.iter().rev().copied().collect());
        Arc::new(Self { answers, heard: Mutex::default() })
    }

    /// The last message of each turn.
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

impl LanguageModel for Script {
    fn answer(&self, conversation: &[Message], _: Cancelled<'_>) -> Result<String, ToolFailure> {
        self.heard.lock().unwrap().push(conversation.last().unwrap().content.clone());
        let answer = self.answers.lock().unwrap().pop();
        answer.map(str::to_owned).ok_or_else(|| ToolFailure::new("nothing more to say"))
    }
}

fn config(layer: PolicyLayer) -> SandboxConfig {
    let policy = ExecutionPolicy::build(Preset::Agent, [layer.timeout_seconds(20.0)]).unwrap();
    SandboxConfig { policy, home: Some(support::home()), ..SandboxConfig::default() }
}

fn rlm(model: &Arc<Script>) -> Arc<Rlm> {
    let model: Arc<dyn LanguageModel> = Arc::clone(model) as _;
    Arc::new(Rlm::new(model, &config(PolicyLayer::new())).max_turns(4))
}

fn solve(model: &Arc<Script>, task: &str, context: Value) -> Result<Value, String> {
    rlm(model).solve(task, &context, 1, &|| false).map_err(|failure| failure.message)
}

#[test]
fn a_model_looks_and_then_answers() {
    let model = Script::new(&[
        "I look.\n```python\nprint(len(context))\n```",
        "```python\nwords = context.split()\nwords[-1]\n```",
        "FINAL: it ends with three",
    ]);
    let answer = solve(&model, "How does it end?", json!("one two three"));
    assert_eq!(answer, Ok(json!("it ends with three")));
    assert_eq!(
        model.heard(),
        ["How does it end?\n\n(`context` is a text of 13 characters.)", "13", "'three'"]
    );
}

#[test]
fn a_variable_is_the_answer_as_json() {
    let model = Script::new(&["```python\nfound = {'n': sum(context)}\n```\nFINAL_VAR: found"]);
    assert_eq!(solve(&model, "Add.", json!([1, 2, 3])), Ok(json!({"n": 6})));
    let model = Script::new(&["```python\nfound = {1, 1}\n```\nFINAL_VAR: found"]);
    assert_eq!(solve(&model, "x", json!(null)), Ok(json!("{1}")));
}

#[test]
fn mistakes_are_told_and_can_be_mended() {
    let model = Script::new(&[
        "```python\n1 / 0\n```\nFINAL: done",
        "FINAL_VAR: nothing",
        "Let me think.",
        "FINAL: 7",
    ]);
    assert_eq!(solve(&model, "x", json!(null)), Ok(json!("7")));
    let heard = model.heard();
    assert!(heard[1].ends_with("ZeroDivisionError: division by zero"), "{}", heard[1]);
    assert_eq!(heard[2], "There is no variable \"nothing\".");
    assert!(heard[3].starts_with("Write code in a fenced block"), "{}", heard[3]);
    assert!(heard[3].ends_with("This is your last turn: end now with a line `FINAL: …`."));
}

#[test]
fn a_model_that_never_ends_is_a_failure() {
    let model = Script::new(&["hm", "hm", "hm", "hm", "FINAL: too late"]);
    let failure = solve(&model, "x", json!(null));
    assert_eq!(failure, Err("the model did not come to an end in 4 turns".to_owned()));
    let failure = solve(&Script::new(&[]), "x", json!(null));
    assert_eq!(failure, Err("nothing more to say".to_owned()));
}

#[test]
fn what_is_shown_is_bounded() {
    let model = Script::new(&["```python\nprint('x' * 100_000)\n```", "FINAL: long"]);
    assert_eq!(solve(&model, "x", json!(null)), Ok(json!("long")));
    let shown = model.heard().pop().unwrap();
    assert!(shown.len() < 9_000 && shown.contains("characters left out"), "{}", shown.len());
}

#[test]
fn javascript_is_a_language_too() {
    let model = Script::new(&["```js\nconst n = context.length\n```\nFINAL_VAR: n"]);
    let shared: Arc<dyn LanguageModel> = model;
    let config = SandboxConfig { runtime: RuntimeType::Javascript, ..config(PolicyLayer::new()) };
    let rlm = Arc::new(Rlm::new(shared, &config));
    assert_eq!(rlm.solve("count", &json!([1, 2]), 1, &|| false), Ok(json!(2)));
}

/// A sandbox whose code may ask the model.
fn asking(rlm: &Arc<Rlm>, layer: PolicyLayer) -> (Box<dyn Sandbox>, tempfile::TempDir) {
    let workspace = tempfile::tempdir().unwrap();
    let mut sandbox = create_sandbox(&SandboxConfig {
        tools: rlm.offer(Tools::new()).unwrap(),
        workspace: Some(workspace.path().to_owned()),
        ..config(layer)
    })
    .unwrap();
    sandbox.initialize(json!("the context")).unwrap();
    (sandbox, workspace)
}

fn value(result: &SandboxResult) -> &str {
    assert!(result.result.is_some(), "no value: {}", result.stderr);
    result.result.as_ref().map_or("", |value| &value.text)
}

#[test]
fn a_task_may_hand_out_tasks_as_deep_as_the_policy_allows() {
    let recurse = "```python\nn = rlm_query('deeper')\n```\nFINAL_VAR: n";
    let model = Script::new(&[recurse, recurse, "FINAL: bottom"]);
    let (mut sandbox, _workspace) = asking(&rlm(&model), PolicyLayer::new());
    assert_eq!(value(&sandbox.execute("rlm_query('go')").unwrap()), "'bottom'");
    // Every task has the context of the one that gave it.
    assert_eq!(model.heard()[2], "deeper\n\n(`context` is a text of 11 characters.)");

    let stop = "```python\ntry:\n    rlm_query('deeper')\nexcept Exception as e:\n    n = type(e).__name__\n```\nFINAL_VAR: n";
    let model = Script::new(&[recurse, recurse, stop]);
    let (mut sandbox, _workspace) = asking(&rlm(&model), PolicyLayer::new());
    assert_eq!(value(&sandbox.execute("rlm_query('go')").unwrap()), "'ToolLimitError'");
}

#[test]
fn several_tasks_are_worked_on_at_once() {
    struct Slow;
    impl LanguageModel for Slow {
        fn answer(&self, talk: &[Message], _: Cancelled<'_>) -> Result<String, ToolFailure> {
            std::thread::sleep(Duration::from_millis(300));
            Ok(format!("FINAL: {}", talk[1].content.split('\n').next().unwrap_or_default()))
        }
    }
    let rlm = Arc::new(Rlm::new(Arc::new(Slow), &config(PolicyLayer::new())));
    let (mut sandbox, _workspace) = asking(&rlm, PolicyLayer::new());
    sandbox.execute("1").unwrap();
    let started = Instant::now();
    let result = sandbox.execute("rlm_query_batched(['a', 'b', 'c', 'd'])").unwrap();
    assert_eq!(value(&result), "['a', 'b', 'c', 'd']");
    assert!(started.elapsed() < Duration::from_millis(1100), "{:?}", started.elapsed());
    assert_eq!(result.meta.tools.calls, 4);
}

#[test]
fn a_cancelled_cell_stops_the_task_it_gave() {
    let model = Script::new(&["```python\nwhile True: pass\n```"]);
    let (mut sandbox, _workspace) = asking(&rlm(&model), PolicyLayer::new());
    let cancel = sandbox.cancel_handle();
    let over = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&over);
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        while !watched.load(Ordering::Relaxed) {
            cancel.cancel();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let started = Instant::now();
    let result = sandbox.execute("rlm_query('go')").unwrap();
    over.store(true, Ordering::Relaxed);
    canceller.join().unwrap();
    assert!(!result.success());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(value(&sandbox.execute("'alive'").unwrap()), "'alive'");
}
