//! One search as a process, for comparing with other programs: `search grep|glob '{"pattern": …}' [DIRECTORY]`.
//!
//! Prints the output as a model gets it. Owns nothing; the comparison is `benches/search.py`.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit, reason = "a program of its own")]

use becket_tool::{Tool, testing};
use becket_tool_search::{Glob, Grep};

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(input)) = (args.next(), args.next()) else {
        eprintln!("usage: search grep|glob INPUT [DIRECTORY]");
        std::process::exit(2);
    };
    let tool: Box<dyn Tool> = if name == "glob" { Box::new(Glob::new()) } else { Box::new(Grep::new()) };
    let input = match serde_json::from_str(&input) {
        Ok(input) => input,
        Err(error) => {
            eprintln!("the input is no JSON: {error}");
            std::process::exit(2);
        }
    };
    let directory = args.next().unwrap_or_else(|| ".".to_owned());
    let (env, _) = testing::env(std::path::Path::new(&directory));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { std::process::exit(1) };
    let output = runtime.block_on(testing::run(tool.as_ref(), &env, input));
    print!("{}", output.content);
    std::process::exit(i32::from(output.is_error));
}
