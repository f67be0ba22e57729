//! Expected screens in files of plain text. `BECKET_UPDATE_SCREENS=1` writes them; read the difference before you keep it.

use std::path::PathBuf;

/// Compares texts with the files of a folder, and fails at the end with every one that differs.
pub(crate) struct Expected {
    dir: PathBuf,
    writes: bool,
    differ: Vec<String>,
}

impl Expected {
    /// `folder`: below `tests/`.
    pub(crate) fn of_folder(folder: &str) -> Self {
        Self {
            dir: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder),
            writes: std::env::var_os("BECKET_UPDATE_SCREENS").is_some(),
            differ: Vec::new(),
        }
    }

    /// Compares a text with `NAME.txt`, or writes the file.
    #[expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]
    pub(crate) fn check(&mut self, name: &str, text: &str) {
        let path = self.dir.join(format!("{name}.txt"));
        if self.writes {
            std::fs::write(&path, text).expect("the folder of the screens is writable");
            return;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if expected != text {
            let same = expected.lines().zip(text.lines()).take_while(|(a, b)| a == b).count();
            self.differ.push(format!("{}, from line {}:\n{text}", path.display(), same + 1));
        }
    }

    /// # Panics
    ///
    /// Fails the test if a text differs from its file.
    pub(crate) fn end(self) {
        assert!(
            self.differ.is_empty(),
            "{}\nBECKET_UPDATE_SCREENS=1 writes these screens.",
            self.differ.join("\n")
        );
    }
}
