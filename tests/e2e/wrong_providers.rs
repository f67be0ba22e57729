//! Wrong values in a provider's configuration, as somebody enters them who does not know becket: each is one message that says
//! what is wrong, why, and what to do.

use crate::providers::configured;
use crate::support::{Bench, run};
use becket_testkit::{MockServer, Reply};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// A part of each key in these tests, which no message may show.
const PLANTED: &str = "planted";

/// A server that answers by the first part of the path.
fn server() -> MockServer {
    let error = |status, message: &str| Reply::json(status, &json!({ "error": { "message": message } }));
    MockServer::with(move |request| match request.path.split('/').nth(1).unwrap_or_default() {
        "page" => Reply::body(200, "text/html", "<html><head><title>Welcome to nginx!</title></head></html>"),
        "lost" => Reply::json(404, &json!({ "detail": "Not Found" })),
        "listing" => Reply::status(404),
        "other" => error(404, "The model `x` does not exist or you do not have access to it."),
        "moved" => Reply::status(308).header("location", "https://login.example.com/sso"),
        "text" => Reply::body(200, "text/plain", "Ollama is running"),
        "nothing" => Reply::body(200, "application/json", ""),
        "json" => Reply::json(200, &json!({ "ok": true })),
        "secure" => Reply::body(400, "text/plain", "Client sent an HTTP request to an HTTPS server.\n"),
        "locked" => error(401, "Incorrect API key provided"),
        _ => Reply::status(500),
    })
    .get("/listing/v1/models", Reply::json(200, &json!({"data": [{"id": "x"}]})))
    .get("/other/v1/models", Reply::json(200, &json!({"data": [{"id": "qwen3"}, {"id": "xx"}]})))
}

/// A port at which something answers that is no HTTP. It ends with the process.
fn port(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let speak = move |mut stream: TcpStream| {
        let mut some = [0; 16_384];
        let _ = stream.read(&mut some);
        let _ = stream.write_all(answer);
    };
    std::thread::spawn(move || listener.incoming().flatten().for_each(speak));
    port
}

/// A port at which nobody listens.
fn dead() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A wrong configuration, and its message.
struct Row {
    config: String,
    environment: Vec<(&'static str, String)>,
    code: i32,
    what: &'static str,
    todo: &'static str,
}

fn row(config: impl Into<String>, code: i32, what: &'static str, todo: &'static str) -> Row {
    Row { config: config.into(), environment: Vec::new(), code, what, todo }
}

/// A row whose provider has this address.
fn at(url: &str, code: i32, what: &'static str, todo: &'static str) -> Row {
    row(format!("kind = \"openai-chat\"\nbase_url = {}\n", json!(url)), code, what, todo)
}

impl Row {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    fn key(mut self, config: &str) -> Self {
        self.config.push_str(config);
        self
    }
}

/// Runs all rows, some at a time, because some wait for retries. Returns what is wrong with them.
fn faults(rows: &[Row]) -> Vec<String> {
    let check = |row: &Row| {
        let bench = Bench::new(&[]);
        configured(&bench, &format!("[providers.mine]\n{}", row.config));
        let mut command = bench.command();
        command.envs(row.environment.iter().map(|(name, value)| (*name, value.as_str())));
        let ran = run(command.args(["-p", "--max-wait", "200ms", "--model", "mine/x", "go"]));
        // Notices before the message do not count as a second message.
        let is_notice = |line: &&str| line.contains("; retry ") || line.contains("The context window of ");
        let told: Vec<&str> = ran.stderr.lines().filter(|line| !is_notice(line)).collect();
        let messages = told.iter().filter(|line| line.starts_with("becket: ")).count();
        let told = told.join("\n");
        let is_right = ran.code == row.code && messages == 1 && ran.stdout.is_empty();
        let is_said = told.contains(row.what) && told.contains(row.todo) && !ran.stderr.contains(PLANTED);
        (!is_right || !is_said).then(|| {
            format!(
                "{}{:?}\n  wanted {}: {} / {}\n  got {}: {}",
                row.config, row.environment, row.code, row.what, row.todo, ran.code, ran.stderr
            )
        })
    };
    std::thread::scope(|scope| {
        let piece = rows.len().div_ceil(4);
        let running: Vec<_> = rows
            .chunks(piece)
            .map(|rows| scope.spawn(move || rows.iter().filter_map(check).collect::<Vec<_>>()))
            .collect();
        running.into_iter().flat_map(|piece| piece.join().unwrap()).collect()
    })
}

#[test]
fn a_wrong_address_is_one_message() {
    let server = server();
    let to = |path: &str| format!("{}/{path}", server.url());
    let (example, dead) = ("write it like https://host/path", dead());
    let rows = [
        at("", 2, "\"\" is not an address", example),
        at("127.0.0.1:8080", 2, "\"127.0.0.1:8080\" is not an address", example),
        at("http://127.0.0.1 :8080/v1", 2, "is not an address", example),
        at(" http://127.0.0.1:8080/v1", 2, "is not an address", example),
        at("http://127.0.0.1:99999/v1", 2, "is not an address", example),
        at("http://127.0.0.1:0/v1", 2, "is not an address", example),
        at("http://::1:8080/v1", 2, "is not an address", example),
        at("http://http://h/v1", 2, "is not an address", example),
        at("ftp://h/v1", 2, "is not an address", example),
        at("http://h/v1\nx", 2, "is not an address", example),
        at("http://me:planted@h/v1", 2, "contains a user name or password", "write it without them"),
        at(
            "http://{host}/v1",
            2,
            "{host} has no value",
            "Write the address in providers.mine.base_url without {host}.",
        ),
        at(
            "http://no-such-host.invalid/v1",
            7,
            "`no-such-host.invalid` cannot be resolved",
            "Correct providers.mine.base_url",
        ),
        at(
            &format!("http://127.0.0.1:{dead}/v1"),
            7,
            "cannot be reached: Connection refused",
            "Start the model server, or correct the base URL.",
        ),
        at(
            &format!("https://127.0.0.1:{dead}/v1"),
            7,
            "cannot be reached: Connection refused",
            "Start the model server, or correct the base URL.",
        ),
        at(
            &to("page/v1"),
            7,
            "answered with a web page: Welcome to nginx!",
            "Check that the base URL points at a model API",
        ),
        at(
            &to("text"),
            7,
            "neither an event stream nor JSON (status 200, text/plain",
            "Check that the base URL points at a model API",
        ),
        at(&to("nothing/v1"), 7, "answered with nothing", "Check that the base URL points at a model API"),
        at(&to("json/v1"), 7, "answered with JSON that is no answer", "the right kind of model API"),
        at(
            &to("moved/v1"),
            7,
            "redirects to https://login.example.com/sso",
            "Set the base URL to where the server really is.",
        ),
        at(
            &to("lost/v1"),
            7,
            "(status 404): Not Found",
            "check the path of the base URL, and providers.mine.kind",
        ),
        at(
            &to("listing/v1"),
            7,
            "(status 404)",
            "The server lists this model: then check the path of the base URL, and providers.mine.kind",
        ),
        at(
            &to("other/v1"),
            7,
            "The model `x` does not exist",
            "The server has the models xx, qwen3. Choose one with --model mine/xx.",
        ),
        at(&to("secure/v1"), 7, "wants TLS there (status 400)", "write the base URL with https://"),
        at(
            &format!("https://127.0.0.1:{}/v1", port(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
            7,
            "it does not speak TLS there",
            "Write the base URL with http://",
        ),
        at(
            &format!("http://127.0.0.1:{}/v1", port(b"SSH-2.0-OpenSSH_9.2\r\n")),
            7,
            "answers, but does not speak HTTP there",
            "Check host and port of the base URL.",
        ),
        // A TLS server answers plain HTTP with an alert.
        at(
            &format!("http://127.0.0.1:{}/v1", port(b"\x15\x03\x01\x00\x02\x02\x46")),
            7,
            "answers, but does not speak HTTP there",
            "write the base URL with https://",
        ),
        at(
            &format!("http://127.0.0.1:{}/v1", port(b"")),
            7,
            "cannot be reached: ",
            "write the base URL with https://",
        ),
    ];
    let faults = faults(&rows);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), rows.len(), faults.join("\n\n"));
}

#[test]
fn a_wrong_proxy_is_one_message() {
    let dead = dead();
    let secure = |todo| at("https://models.example.com/v1", 7, "models.example.com", todo);
    let ssh = port(b"SSH-2.0-OpenSSH_9.2\r\n");
    let rows = [
        at(
            "http://models.example.com/v1",
            2,
            "The proxy in HTTP_PROXY or ALL_PROXY cannot be used",
            "Write it as http://HOST:PORT",
        )
        .with("HTTP_PROXY", "not a url"),
        at(
            "https://models.example.com/v1",
            2,
            "The proxy in HTTPS_PROXY or ALL_PROXY cannot be used",
            "Write it as http://HOST:PORT",
        )
        .with("HTTPS_PROXY", "http://h:port"),
        secure("Start the proxy, correct the variable, or unset it.")
            .with("HTTPS_PROXY", format!("http://127.0.0.1:{dead}")),
        secure("Start the proxy, correct the variable, or unset it.")
            .with("HTTPS_PROXY", format!("127.0.0.1:{dead}")),
        secure("Check that a proxy is at that address")
            .with("HTTPS_PROXY", format!("http://127.0.0.1:{ssh}")),
        at(
            "https://no-such-host.invalid/v1",
            7,
            "cannot be resolved",
            "write socks5h:// in HTTPS_PROXY or ALL_PROXY",
        )
        .with("ALL_PROXY", format!("socks5://127.0.0.1:{dead}")),
    ];
    let faults = faults(&rows);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), rows.len(), faults.join("\n\n"));
}

#[test]
fn a_wrong_key_is_one_message() {
    let server = server();
    let locked = |code, what, todo| at(&format!("{}/locked/v1", server.url()), code, what, todo);
    let named = "api_key_env = \"MYKEY\"\n";
    let again = "Set it again: the key alone, in one line, without quotation marks.";
    let rows = [
        locked(2, "MYKEY, as set in providers.mine.api_key_env contains a line break", again)
            .key(named)
            .with("MYKEY", "sk-plan\nplanted"),
        locked(2, "contains quotation marks", again).key(named).with("MYKEY", "\"sk-planted\""),
        locked(2, "contains a blank", again).key(named).with("MYKEY", "Bearer sk-planted"),
        locked(2, "contains a character that is not ASCII", again).key(named).with("MYKEY", "sk-plantedж"),
        locked(7, "refused the credentials", "The key is from MYKEY, as set in providers.mine.api_key_env.")
            .key(named)
            .with("MYKEY", "sk-planted\n"),
        locked(2, "the name of an environment variable, not the key itself", "write a name like MY_KEY")
            .key("api_key_env = \"sk-planted-1234567\"\n"),
        locked(2, "the name of an environment variable, not the key itself", "write a name like MY_KEY")
            .key("api_key_env = \"$MYKEY\"\n"),
        locked(2, "expected a list, not \"echo x\"", "correct the value or remove the key")
            .key("key_command = \"echo x\"\n"),
        locked(2, "[] names no program", "write it like").key("key_command = []\n"),
        locked(7, "no-such-program-x", "Correct providers.mine.key_command")
            .key("key_command = [\"no-such-program-x\"]\n"),
        locked(7, "key_command failed (exit status: 1)", "Correct providers.mine.key_command")
            .key("key_command = [\"false\"]\n"),
        locked(7, "printed no key", "Correct providers.mine.key_command").key("key_command = [\"true\"]\n"),
        locked(7, "other than a single key", "Correct providers.mine.key_command")
            .key("key_command = [\"printf\", \"planted\\\\nplanted\"]\n"),
        locked(2, "a key does not belong in a file", "name its variable with api_key_env")
            .key("headers = { Authorization = \"Bearer sk-planted\" }\n"),
    ];
    let faults = faults(&rows);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), rows.len(), faults.join("\n\n"));
}

#[test]
fn a_value_of_the_wrong_type_is_one_message() {
    let correct = "correct the value or remove the key";
    let good = |more: &str| format!("kind = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n{more}");
    let model = |more: &str| good(&format!("[[providers.mine.models]]\n{more}"));
    let rows = [
        row(
            "kind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n",
            2,
            "\"openai\" is not one of anthropic, openai-chat",
            "did you mean openai-chat?",
        ),
        row(
            "kind = 3\nbase_url = \"http://127.0.0.1:9/v1\"\n",
            2,
            "providers.mine.kind: expected text, not 3",
            correct,
        ),
        row(
            "base_url = \"http://127.0.0.1:9/v1\"\n",
            2,
            "mine is not built in",
            "it needs `kind` (openai-chat for most servers)",
        ),
        row(
            "kind = \"openai-chat\"\nurl = \"http://127.0.0.1:9/v1\"\n",
            2,
            "mine is not built in",
            "it needs `base_url`, too",
        ),
        row(
            "kind = \"openai-chat\"\nbase_url = 8080\n",
            2,
            "providers.mine.base_url: expected text, not 8080",
            correct,
        ),
        row(
            "kind = \"openai-chat\"\nbase_url = [\"http://127.0.0.1:9\"]\n",
            2,
            "expected text, not a list",
            correct,
        ),
        row(good("auth = \"basic\"\n"), 2, "\"basic\" is not one of bearer", correct),
        row(
            good("headers = [\"X: y\"]\n"),
            2,
            "providers.mine.headers: expected a table, not a list",
            correct,
        ),
        row(good("headers = { X = 3 }\n"), 2, "providers.mine.headers.X: expected text, not 3", correct),
        row(
            good("headers = { \"X Y\" = \"3\" }\n"),
            2,
            "\"X Y\" is not the name of a header",
            "use letters, digits and -",
        ),
        row(good("models = \"x\"\n"), 2, "providers.mine.models: expected a list, not \"x\"", correct),
        row(good("models = [\"x\"]\n"), 2, "providers.mine.models.0: expected a table, not \"x\"", correct),
        row(model("name = \"x\"\nwindow = \"128k\"\n"), 2, "expected a whole number, not \"128k\"", correct),
        row(model("name = \"x\"\nwindow = 99999999999999999999\n"), 2, "99999999999999999999", correct),
        row(
            model("name = \"x\"\nwindow = 0\n"),
            2,
            "a window has at least 4,000 tokens, not 0",
            "give a larger one",
        ),
        row(
            model("window = 128000\n"),
            2,
            "entry 1 has the name \"\"",
            "each entry needs the model's `name`",
        ),
        row(
            good("[providers.mine.compat]\noutput_limit = \"tokens\"\n"),
            2,
            "\"tokens\" is not one of max_tokens",
            correct,
        ),
        row(
            good("[providers.mine.compat]\nstream_usage = \"yes\"\n"),
            2,
            "expected true or false, not \"yes\"",
            correct,
        ),
        row(good("region = \"eu west\"\n"), 2, "\"eu west\" is not a region", "such as eu-west-1"),
        row(good("body = { messages = [] }\n"), 2, "becket sets the field messages itself", "remove it"),
    ];
    let faults = faults(&rows);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), rows.len(), faults.join("\n\n"));
}
