//! `/key` and `/login`: replaces a provider's key on a page that hides what is typed, or logs in with a code.
//!
//! Owns the pages while they are open. The host checks a key with one request to its provider and stores it, and carries out a
//! login. A key enters no history, draft or transcript.

use super::Pages;
use crate::app::App;
use crate::input::{Account, Effect, Hidden, LoginCode, Request};
use crate::transcript::block::Weight;
use crate::welcome::{Answer, Entry, Welcome};
use becket_types::Command;
use crossterm::event::KeyEvent;

const ABOUT: &str = "Choose a provider, then paste its key. becket asks the provider once if the key is valid, and saves it in \
    the keychain, or in a file that only you can read.";
const ABOUT_LOGIN: &str = "A provider with a login shows a code, which you enter in a browser.";

/// Ids of the entries on the page that shows a login code.
const COPY_CODE: &str = "code";
const COPY_ADDRESS: &str = "address";
const CANCEL: &str = "cancel";

/// The open page.
pub(in crate::app) struct KeyPage {
    pub page: Welcome,
    stage: Stage,
}

enum Stage {
    /// The list of providers. `with_login`: the providers at which the user logs in with a code.
    Choosing { with_login: Vec<String> },
    /// A login at this provider. `code`: absent until the provider has sent it.
    LoggingIn { provider: String, code: Option<LoginCode> },
}

/// Result of a key press on the page.
pub(in crate::app) enum Entered {
    Key(String, Hidden),
    Effects(Vec<Effect>),
    /// The login at this provider is given up.
    Cancelled(String),
}

impl Pages {
    /// Opens the page with these providers.
    pub(in crate::app) fn offer_keys(&mut self, accounts: &[Account]) {
        let entry = |account: &Account| {
            let entry = Entry::new(&account.provider, &account.provider, &account.about);
            if account.has_login { entry } else { entry.secret() }
        };
        let entries = accounts.iter().map(entry).collect();
        let with_login = accounts.iter().filter(|account| account.has_login);
        let with_login: Vec<String> = with_login.map(|account| account.provider.clone()).collect();
        let mut text = vec![ABOUT.to_owned()];
        text.extend((!with_login.is_empty()).then(|| ABOUT_LOGIN.to_owned()));
        let page = Welcome::new("Another key", text, entries).closing().judged(judge);
        self.key_page = Some(KeyPage { page, stage: Stage::Choosing { with_login } });
    }

    /// Handles a key on that page.
    pub(in crate::app) fn key_page_key(&mut self, key: KeyEvent) -> Option<Entered> {
        let open = self.key_page.as_mut()?;
        let answer = open.page.pressed(key)?;
        match (&open.stage, answer) {
            (Stage::Choosing { .. }, Answer::Written(provider, key)) => {
                self.key_page = None;
                Some(Entered::Key(provider, Hidden(key)))
            }
            (Stage::Choosing { with_login }, Answer::Chosen(provider)) if with_login.contains(&provider) => {
                self.key_page = Some(KeyPage::asking(&provider));
                Some(Entered::Effects(vec![Effect::Ask(Request::LogIn { provider })]))
            }
            (Stage::LoggingIn { code: Some(code), .. }, Answer::Chosen(id)) if id != CANCEL => {
                let (text, note) = match id.as_str() {
                    COPY_CODE => (code.code.clone(), "The code is copied."),
                    _ => (code.complete.as_ref().unwrap_or(&code.address).clone(), "The address is copied."),
                };
                open.page.note(note);
                Some(Entered::Effects(vec![Effect::Copy(text)]))
            }
            (Stage::LoggingIn { provider, .. }, _) => {
                let provider = provider.clone();
                self.key_page = None;
                Some(Entered::Cancelled(provider))
            }
            (Stage::Choosing { .. }, _) => {
                self.key_page = None;
                None
            }
        }
    }

    /// Shows the code of the login that the page waits for. Returns false if the login was given up meanwhile.
    fn show_code(&mut self, provider: &str, code: LoginCode) -> bool {
        if !self.logs_in(provider) {
            return false;
        }
        self.key_page = Some(KeyPage::showing(provider, code));
        true
    }

    /// Closes the page of a login that has ended.
    fn login_ended(&mut self, provider: &str) {
        if self.logs_in(provider) {
            self.key_page = None;
        }
    }

    fn logs_in(&self, provider: &str) -> bool {
        let stage = self.key_page.as_ref().map(|open| &open.stage);
        matches!(stage, Some(Stage::LoggingIn { provider: of, .. }) if of == provider)
    }
}

/// Shows the code of a login, and waits until the user has entered it.
pub(in crate::app) fn login_code(app: &mut App, provider: String, code: LoginCode) -> Vec<Effect> {
    let waits = app.pages.show_code(&provider, code);
    waits.then_some(Effect::Ask(Request::AwaitLogin { provider })).into_iter().collect()
}

/// Reports the result, and opens the current model again if it uses the new key.
pub(in crate::app) fn key_kept(app: &mut App, provider: &str, result: Result<String, String>) -> Vec<Effect> {
    app.status.end_toast();
    app.pages.login_ended(provider);
    let said = match result {
        Ok(said) => said,
        Err(why) => {
            app.note(Weight::Error, why);
            return Vec::new();
        }
    };
    app.note(Weight::Quiet, said);
    app.editor.completion.forget_models();
    let model = app.status.model();
    if model.split_once('/').is_some_and(|(of, _)| of == provider) {
        return vec![Effect::Send(Command::SetModel { model: model.to_owned() })];
    }
    Vec::new()
}

impl KeyPage {
    fn asking(provider: &str) -> Self {
        let cancel = vec![Entry::new(CANCEL, "Cancel the login", "")];
        let page = Welcome::new(&login_title(provider), Vec::new(), cancel).cancelling();
        let page = page.noting(&format!("Asking {provider} for a code …"));
        Self { page, stage: Stage::LoggingIn { provider: provider.to_owned(), code: None } }
    }

    fn showing(provider: &str, code: LoginCode) -> Self {
        let mut text = vec![
            "Open this address in a browser, on this device or another one:".to_owned(),
            format!("  {}", code.address),
            String::new(),
            "Enter this code there:".to_owned(),
            format!("  {}", code.code),
        ];
        if let Some(complete) = &code.complete {
            text.extend([
                String::new(),
                "This address has the code in it:".to_owned(),
                format!("  {complete}"),
            ]);
        }
        let entries = vec![
            Entry::new(COPY_CODE, "Copy the code", ""),
            Entry::new(COPY_ADDRESS, "Copy the address", ""),
            Entry::new(CANCEL, "Cancel the login", ""),
        ];
        let note = format!("Waiting until you have entered the code. It is valid for {} min.", code.minutes);
        let page = Welcome::new(&login_title(provider), text, entries).cancelling().noting(&note);
        Self { page, stage: Stage::LoggingIn { provider: provider.to_owned(), code: Some(code) } }
    }
}

fn login_title(provider: &str) -> String {
    format!("Log in at {provider}")
}

/// Checks only the form of a key. The provider decides if it is valid.
fn judge(key: &str) -> Result<String, String> {
    match key {
        "" => Err("paste the key first".to_owned()),
        _ if !key.bytes().all(|b| b.is_ascii_graphic()) => {
            Err("a key has no spaces and only ASCII characters".to_owned())
        }
        _ => Ok(format!("{} characters", key.len())),
    }
}
