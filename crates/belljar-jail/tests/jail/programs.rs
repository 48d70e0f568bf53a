//! Other interpreters than the system's Python.

use std::path::Path;

use belljar_jail::{Ended, JailPlan, MemoryRule};

use crate::harness::{Run, run};

const NODE: &str = "/usr/bin/node";

fn node(code: &str) -> Option<Run> {
    if !Path::new(NODE).exists() {
        println!("skipped: no node at {NODE}");
        return None;
    }
    let mut plan = JailPlan::new(NODE);
    plan.with_system();
    plan.args = ["-e", code].map(String::from).into();
    plan.limits.memory_rule = MemoryRule::Data;
    plan.limits.memory_bytes = 1 << 30;
    Some(run(plan))
}

crate::both_users! {
    fn node_works() {
        let Some(run) = node("
const { Worker, isMainThread } = require('worker_threads');
const { execSync } = require('child_process');
require('fs').writeFileSync('/app/x', 'file');
console.log(require('fs').readFileSync('/app/x', 'utf8'), execSync('echo child').toString().trim());
const w = new Worker(`require('worker_threads').parentPort.postMessage('worker')`, { eval: true });
w.on('message', m => { console.log(m); setTimeout(() => console.log('timer'), 5); });
const bytes = Uint8Array.of(0,97,115,109,1,0,0,0,1,5,1,96,0,1,127,3,2,1,0,7,5,1,1,102,0,0,10,6,1,4,0,65,42,11);
WebAssembly.instantiate(bytes).then(m => console.log('wasm', m.instance.exports.f()));
") else { return };
        let mut lines: Vec<_> = run.out.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            (run.ended, lines, &*run.err),
            (Ended::Exited(0), vec!["file child", "timer", "wasm 42", "worker"], "")
        );
    }

    fn node_sees_nothing_of_the_host() {
        let Some(run) = node("
const tried = f => { try { f(); console.log('worked'); } catch (e) { console.log(e.code); } };
tried(() => require('fs').readFileSync('/etc/shadow'));
tried(() => require('fs').writeFileSync('/usr/x', ''));
console.log(Object.keys(process.env).length);
require('net').connect(80, '127.0.0.1').on('error', e => console.log(e.code));
") else { return };
        assert_eq!(run.out, "ENOENT\nEROFS\n0\nEPERM\n");
    }
}
