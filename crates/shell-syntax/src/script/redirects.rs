//! Words after a redirection. The grammar gives all of them to the redirection (`find . <a -delete`), where the shell
//! takes the first as its file and the others as words of the command.

use tree_sitter::Node;

/// The command that a redirection follows.
fn command_before(redirect: Node<'_>) -> Option<Node<'_>> {
    let statement = redirect.parent().filter(|parent| parent.kind() == "redirected_statement")?;
    statement.named_child(0).filter(|first| first.kind() == "command")
}

/// True if a command comes before the redirection and reads its further words.
pub(super) fn is_after_command(redirect: Node<'_>) -> bool {
    command_before(redirect).is_some()
}

/// The words of a command that follow its redirections.
pub(super) fn words_after_redirects(command: Node<'_>) -> Vec<Node<'_>> {
    let Some(statement) = command.parent() else { return Vec::new() };
    let mut cursor = statement.walk();
    let redirects = statement.named_children(&mut cursor).filter(|child| child.kind() == "file_redirect");
    let mut words = Vec::new();
    for redirect in redirects.filter(|redirect| command_before(*redirect) == Some(command)) {
        let mut cursor = redirect.walk();
        let named = redirect.named_children(&mut cursor).filter(|child| child.kind() != "file_descriptor");
        words.extend(named.skip(1));
    }
    words
}
