//! becket
fn main() {}
