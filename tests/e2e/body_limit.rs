//! Servers and proxies that refuse a request for its bytes: the request gets smaller, the limit is remembered, and a request
//! that cannot get smaller ends the run with the sizes.

use crate::support::{Api, BOTH, Bench, Ran, run};
use becket_testkit::{Answer, MockServer, Recorded, Reply};
use serde_json::json;
use std::collections::VecDeque;

const NGINX: &str = "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n</html>";

fn nginx() -> Reply {
    Reply::body(413, "text/html", NGINX)
}

/// As Express words it, with its limit.
fn express(limit: usize) -> Reply {
    let text = json!({"message": "request entity too large", "limit": limit, "type": "entity.too.large"});
    Reply::json(413, &text)
}

/// Refuses bodies above `limit` bytes; gives `answers` to the others, then says that it is done.
fn limited(limit: usize, refusal: Reply, answers: Vec<Answer>) -> MockServer {
    let mut answers = VecDeque::from(answers);
    MockServer::with(move |request| {
        if request.body.len() > limit {
            return refusal.clone();
        }
        answers.pop_front().unwrap_or_else(|| Answer::text("done")).into()
    })
}

fn sizes(requests: &[Recorded]) -> Vec<usize> {
    requests.iter().map(|request| request.body.len()).collect()
}

/// The number of refused requests. Asserts that each of them is followed by a smaller one.
fn refused(requests: &[Recorded], limit: usize) -> usize {
    let sizes = sizes(requests);
    for pair in sizes.windows(2).filter(|pair| pair[0] > limit) {
        assert!(pair[1] < pair[0], "{sizes:?}");
    }
    sizes.iter().filter(|size| **size > limit).count()
}

/// An image of about 120 kB, which does not compress.
fn noise(seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let picture = image::RgbImage::from_fn(200, 200, |_, _| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let [a, b, c, _] = state.to_le_bytes();
        image::Rgb([a, b, c])
    });
    let mut png = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut png, image::ImageFormat::Png).unwrap();
    png.into_inner()
}

fn look(name: &str) -> Answer {
    Answer::tool(&format!("look_{name}"), "read", json!({ "path": format!("{name}.png") }))
}

fn command(id: &str, command: &str) -> Answer {
    Answer::tool(id, "bash", json!({ "command": command }))
}

fn ended(ran: &Ran) -> String {
    let result = ran.result();
    assert_eq!(result["subtype"], "error_during_execution", "{result}");
    assert_eq!(result["is_error"], true, "{result}");
    ran.stderr.clone()
}

#[test]
fn images_become_notes_oldest_first_and_the_limit_is_remembered() {
    const LIMIT: usize = 450_000;
    let bench = Bench::new(&[]);
    for (seed, name) in (1..).zip(["a", "b", "c", "d", "e"]) {
        std::fs::write(bench.project.root().join(format!("{name}.png")), noise(seed)).unwrap();
    }
    let server = limited(LIMIT, nginx(), vec![look("a"), look("b"), look("c")]);
    let ran = run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert_eq!(ran.stdout, "done\n");
    let requests = server.requests();
    assert_eq!(refused(&requests, LIMIT), 1, "{:?}", sizes(&requests));
    let last = requests.last().unwrap().text();
    assert!(last.contains("[Attached image/png: a.png"), "the oldest is a note");
    assert_eq!(last.matches(r#""media_type":"image/png""#).count(), 1, "the newest is an image");
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("becket sends it with")).collect();
    assert_eq!(lines.len(), 1, "{}", ran.stderr);
    assert!(
        lines[0].contains("status 413") && lines[0].contains("2 images became short notes"),
        "{}",
        lines[0]
    );
    assert!(lines[0].contains(" kB"), "{}", lines[0]);
    assert!(!ran.stderr.contains("compact"), "bytes are no tokens: {}", ran.stderr);
    assert!(!ran.stderr.contains("pruned"), "bytes are no tokens: {}", ran.stderr);

    // The next process knows the size that was refused, and does not send it again.
    let server_again = limited(LIMIT, nginx(), vec![look("d"), look("e")]);
    let home = bench.home.files();
    let (path, known) = home.iter().find(|(path, _)| path.ends_with("server-body-limits.json")).unwrap();
    bench.home.write(path, known.replace(&server.url(), &server_again.url()));
    let ran = run(bench.print(Api::Anthropic, &server_again).args(["--continue", "go on"])).expect(0);
    let requests = server_again.requests();
    assert_eq!(refused(&requests, LIMIT), 0, "{:?}", sizes(&requests));
    assert!(ran.stderr.contains("refused one of"), "{}", ran.stderr);
    let last = requests.last().unwrap().text();
    assert!(last.contains("[Attached image/png: c.png") && !last.contains("[Attached image/png: e.png"));
}

#[test]
fn large_outputs_become_notes_and_a_named_limit_is_kept() {
    const LIMIT: usize = 102_400;
    for api in BOTH {
        let bench = Bench::new(&[]);
        let answers: Vec<Answer> =
            (1..9).map(|n| command(&format!("c{n}"), &format!("seq {n}0000 {n}4500"))).collect();
        let server = limited(LIMIT, express(LIMIT), answers);
        let ran =
            run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "go"])).expect(0);
        assert_eq!(ran.stdout, "done\n", "{api:?}");
        let requests = server.requests();
        assert_eq!(refused(&requests, LIMIT), 1, "{api:?}: {:?}", sizes(&requests));
        let last = requests.last().unwrap().text();
        assert!(last.contains("84500") && last.contains("<tool-output-compacted"), "{api:?}");
        assert!(ran.stderr.contains("at most 100.0 kB are taken"), "{api:?}: {}", ran.stderr);
    }
}

#[test]
fn results_that_the_model_has_not_seen_are_shown_in_part() {
    const LIMIT: usize = 80_000;
    let bench = Bench::new(&[]);
    let step = (1..7).fold(Answer::new(), |answer, n| {
        answer.and_tool(&format!("c{n}"), "bash", json!({ "command": format!("seq {n}0000 {n}4500") }))
    });
    let server = limited(LIMIT, nginx(), vec![step]);
    let ran =
        run(bench.print(Api::Chat, &server).args(["--permission-mode", "bypassPermissions", "go"])).expect(0);
    assert_eq!(ran.stdout, "done\n");
    let requests = server.requests();
    assert!(refused(&requests, LIMIT) >= 1, "{:?}", sizes(&requests));
    let last = requests.last().unwrap().text();
    for n in 1..7 {
        assert!(last.contains(&format!("{n}0000")), "the beginning of output {n}");
    }
    assert!(last.contains("left out"), "{last}");
}

#[test]
fn a_request_that_cannot_get_smaller_ends_with_its_size() {
    let bench = Bench::new(&[]);
    std::fs::write(bench.project.root().join("a.png"), noise(1)).unwrap();
    let server = limited(100_000, nginx(), Vec::new());
    let rules = "Mind the gap. ".repeat(10_000);
    let mut command = bench.print(Api::Chat, &server);
    bench.home.write("rules.txt", &rules);
    command.arg("--append-system-prompt-file").arg(bench.home.path("rules.txt"));
    let ran = run(command.args(["--output-format", "stream-json", "--verbose", "go"])).expect(7);
    let text = ended(&ran);
    assert!(text.contains("The request had 1") && text.contains(" kB"), "{text}");
    assert!(text.contains("client_max_body_size"), "{text}");
    assert_eq!(server.requests().len(), 1, "{:?}", sizes(&server.requests()));
    assert!(!ran.stdout.contains("compact_boundary"), "{}", ran.stdout);
    // A later process sends the large request once more, because the server's limit may have grown. It is refused again
    // and ends with the same exit code.
    let ran = run(bench.print(Api::Chat, &server).args(["--continue", "again"])).expect(7);
    assert_eq!(server.requests().len(), 2, "{}", ran.stderr);
}

#[test]
fn a_server_that_refuses_every_size_is_not_asked_for_ever() {
    for api in BOTH {
        let bench = Bench::new(&[]);
        let mut first = vec![command("c1", "seq 10000 14500")];
        let server = MockServer::with(move |_| first.pop().map_or_else(nginx, Into::into));
        let ran =
            run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "go"])).expect(7);
        let requests = server.requests();
        assert!(requests.len() <= 10, "{api:?}: {:?}", sizes(&requests));
        assert!(ran.stderr.contains("the request would have"), "{api:?}: {}", ran.stderr);

        // If the server refuses a request that is within the limit it names, becket does not try a smaller one.
        let bench = Bench::new(&[]);
        let server = limited(0, express(10 << 20), Vec::new());
        let ran = run(bench.print(api, &server).arg("go")).expect(7);
        assert_eq!(server.requests().len(), 1, "{api:?}");
        assert!(ran.stderr.contains("within the limit of 10.0 MB"), "{api:?}: {}", ran.stderr);
    }
}
