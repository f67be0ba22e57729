//! Many runs at once in one directory: all finish, each in a session of its own.

use crate::support::{Api, Bench, Running};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::collections::BTreeMap;

#[test]
fn thirty_two_runs_in_one_directory_all_finish() {
    let bench = Bench::new(&[("a.txt", "A\n")]);
    let mut steps: BTreeMap<String, usize> = BTreeMap::new();
    let server = MockServer::with(move |request| {
        let name = request.text().split("run-").nth(1).unwrap()[..2].to_owned();
        let step = steps.entry(name.clone()).or_default();
        *step += 1;
        if *step > 10 {
            return Answer::text(format!("end-{name}")).into();
        }
        Answer::tool(&format!("c{step}"), "read", json!({ "path": "a.txt", "limit": step })).into()
    });
    let running: Vec<(usize, Running)> = (10..42)
        .map(|n| {
            let mut running = Running::start(bench.print(Api::Chat, &server).arg(format!("run-{n}")));
            running.close_stdin();
            (n, running)
        })
        .collect();
    for (n, running) in running {
        let ran = running.wait().expect(0);
        assert_eq!(ran.stdout, format!("end-{n}\n"));
    }
    assert_eq!(bench.ledgers().len(), 32);
}
