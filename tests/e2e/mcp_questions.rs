//! Questions of MCP servers in the terminal, with a real server.

use crate::mcp::fixture;
use crate::support::Bench;
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

#[test]
fn a_form_is_filled_in_on_the_screen_and_its_server_gets_the_values() {
    let bench = Bench::new(&[]);
    let server =
        MockServer::start([Answer::tool("c1", "mcp__fix__ask", json!({})), Answer::text("all done")]);
    let mut command = becket(&bench, &server);
    let config = json!({ "mcpServers": { "fix": fixture(&["plain"]) } }).to_string();
    command.args(["--permission-mode", "bypassPermissions", "--mcp-config", &config]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("The MCP server fix asks");
    terminal.shows("Your name?");
    terminal.press_until("\t", "type the value");
    // The typed text is added to the default value; then the keyboard goes to the answers.
    terminal.send(" L\r");
    terminal.shows("❯ 1 Send this");
    terminal.press_until("\r", "all done");
    let result = server.requests()[1].text().to_owned();
    assert!(result.contains("accept") && result.contains("Ada L"), "{result}");
}
