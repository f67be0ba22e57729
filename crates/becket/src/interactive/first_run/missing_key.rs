//! The question before a session whose model has no key: enter the key, log in, or begin with another model.
//!
//! Owns the page, its answers in plain lines for screen readers, and their effects. A key is checked and stored as `/key` does
//! it, a login as `/login` does it. The choice of another model is not stored, because the configured or named model stays the
//! user's choice for later runs.

use super::{Choice, Note, may_keep, servers, unusable};
use crate::cmd::one_line;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::federation::device::{DeviceLogin, Prompt};
use crate::interactive::accounts::{KeyFault, check_and_keep};
use crate::interactive::line_input::LineInput;
use crate::interactive::preferences;
use crate::keys::KeyStore;
use crate::settings::RunSettings;
use crate::{models, sys};
use becket_config::{ProviderAuth, Source};
use becket_model::ModelRef;
use becket_tui::theme::Theme;
use becket_tui::welcome::{self, Answer, Entry, Welcome};
use serde_json::Value;
use std::io::{self, Write as _};
use tokio::sync::mpsc;

/// Asks for the key of `model`. Returns true if the session can be tried again, and false if the user leaves or nothing can be
/// done here. `failure`: says that the key is missing.
pub(in crate::interactive) async fn ask(
    environment: &Environment,
    settings: &mut RunSettings,
    typed: Option<&mut LineInput>,
    model: &ModelRef,
    failure: &Failure,
) -> Result<bool, Failure> {
    let provider = model.provider();
    let login = DeviceLogin::from_environment(environment, &settings.settings, provider);
    let auth = settings.settings.config.provider(provider).auth;
    let auth = auth.or(becket_config::vendor(provider).map(|vendor| vendor.auth));
    // AWS and Google have identities in place of keys.
    let takes_key =
        !matches!(auth, Some(ProviderAuth::Aws | ProviderAuth::Google)) && may_keep(environment, settings);
    if let Some(typed) = typed {
        return in_lines(environment, settings, typed, provider, login, takes_key, failure).await;
    }
    let (preferences, _) = preferences::load(environment, &settings.settings.config);
    let mut note = String::new();
    loop {
        let (page, fixed) = page(environment, settings, model, failure, login.is_some(), takes_key);
        if fixed == 0 {
            return Ok(false);
        }
        let usual = servers::local_servers(environment, &settings.settings);
        let news = servers::query_all(usual, None, 0, Some(Note::new(note.clone())));
        let page = page.noting(&note);
        let answer = welcome::run(io::stdout(), &preferences.theme, page, news).await;
        match answer.map_err(|e| unusable(&e))? {
            Answer::Chosen(Choice::Model(name)) => {
                settings.settings.set("model", Value::from(name), Source::Flag("--model".to_owned()));
                return Ok(true);
            }
            Answer::Chosen(Choice::LogIn) => {
                let Some(login) = login.clone() else { return Ok(false) };
                match log_in(login, provider, &preferences.theme).await? {
                    Ok(()) => return Ok(true),
                    Err(why) => note = why,
                }
            }
            Answer::Written(_, key) => match enter(environment, settings, provider, &key).await {
                Ok(()) => return Ok(true),
                Err(why) => note = why,
            },
            Answer::Chosen(_) | Answer::None => return Ok(false),
        }
    }
}

/// Returns the page, and its number of entries.
fn page(
    environment: &Environment,
    settings: &RunSettings,
    model: &ModelRef,
    failure: &Failure,
    has_login: bool,
    takes_key: bool,
) -> (Welcome<Choice>, usize) {
    let provider = model.provider();
    let mut entries = Vec::new();
    if has_login {
        let entry = Entry::of(
            Choice::LogIn,
            &format!("log in at {provider}"),
            "with a code that you enter in a browser",
        );
        entries.push(entry);
    }
    if takes_key {
        let entry = Entry::of(Choice::Key, &format!("enter a key for {provider}"), "saved for the next time");
        entries.push(entry.secret());
    }
    let others = models::models_by_key(environment, &settings.settings).into_iter();
    entries.extend(others.map(|(found, other)| {
        Entry::of(Choice::Model(other.clone()), &other, &format!("for this run, with the key in {found}"))
    }));
    let text = failure.hint.iter().fold(vec![failure.message.clone()], |mut text, hint| {
        text.push(hint.clone());
        text
    });
    let count = entries.len();
    let title = format!("{} needs a key", one_line(&model.to_string(), 200));
    (Welcome::new(&title, text, entries).judged(key_form), count)
}

/// Judges the form of a key: a provider of the user's own may have keys of any form.
fn key_form(key: &str) -> Result<String, String> {
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("a key has no spaces and only ASCII characters".to_owned());
    }
    Ok("becket asks the provider if the key is valid, and saves it".to_owned())
}

/// Checks and stores a key, and uses it from now on.
///
/// # Errors
///
/// Returns the reason for the user if the key is refused or cannot be stored.
async fn enter(
    environment: &Environment,
    settings: &mut RunSettings,
    provider: &str,
    key: &str,
) -> Result<(), String> {
    let reached = models::model_settings(environment, &settings.settings);
    check_and_keep(environment, &settings.settings, reached, provider, key).await.map_err(
        |fault| match fault {
            KeyFault::Refused(why) => format!("{why}. Copy the whole key and enter it again."),
            KeyFault::NotStored(why) => why,
        },
    )?;
    let address = settings.settings.address(provider);
    settings.settings.add_key(provider, address.as_deref(), key, crate::keys::path(environment));
    Ok(())
}

/// Shows the code of a login until the user has entered it or gives up. The inner error says why there is no login.
async fn log_in(login: DeviceLogin, provider: &str, theme: &Theme) -> Result<Result<(), String>, Failure> {
    let failed =
        |why: String| format!("The login at {provider} did not work: {}.", why.trim_end_matches('.'));
    let (prompt, mut task) = login.start(KeyStore::Keychain);
    if let Ok(prompt) = prompt.await {
        let cancel = vec![Entry::of((), "cancel the login", "")];
        let page = Welcome::new(&format!("Log in at {provider}"), code(&prompt), cancel).cancelling();
        let (_, nothing) = mpsc::unbounded_channel();
        tokio::select! {
            answer = welcome::run(io::stdout(), theme, page, nothing) => {
                task.abort();
                return answer.map(|_| Err("The login is cancelled.".to_owned())).map_err(|e| unusable(&e));
            }
            ended = &mut task => return Ok(ended.map_err(|e| e.to_string()).and_then(|ended| ended.map(drop)).map_err(failed)),
        }
    }
    // Without a code the login has already ended, so its result is the answer.
    Ok(task.await.map_err(|e| e.to_string()).and_then(|ended| ended.map(drop)).map_err(failed))
}

/// Returns the lines that tell the user where to enter the code.
fn code(prompt: &Prompt) -> Vec<String> {
    let Prompt { address, code, complete, lifetime } = prompt;
    let mut text = vec![
        "Open this address in a browser, on this device or another one:".to_owned(),
        format!("  {address}"),
        "Enter this code there:".to_owned(),
        format!("  {code}"),
    ];
    if let Some(complete) = complete {
        text.extend(["This address has the code in it:".to_owned(), format!("  {complete}")]);
    }
    text.push(format!(
        "The code is valid for {} min. The session begins when you have entered it.",
        lifetime.as_secs().div_ceil(60)
    ));
    text
}

/// Asks in plain lines. A login begins at once; Ctrl-C or an empty line leaves.
async fn in_lines(
    environment: &Environment,
    settings: &mut RunSettings,
    typed: &mut LineInput,
    provider: &str,
    login: Option<DeviceLogin>,
    takes_key: bool,
    failure: &Failure,
) -> Result<bool, Failure> {
    let cannot = |e: io::Error| unusable(&e);
    if login.is_none() && !takes_key {
        return Ok(false);
    }
    writeln!(io::stderr(), "{failure}").map_err(cannot)?;
    if let Some(login) = login {
        let (prompt, mut task) = login.start(KeyStore::Keychain);
        if let Ok(prompt) = prompt.await {
            let lines = code(&prompt).join("\n");
            writeln!(io::stderr(), "{lines}\nCtrl-C leaves.").map_err(cannot)?;
        }
        let ended = tokio::select! {
            ended = &mut task => ended.map_err(|e| e.to_string()).and_then(|ended| ended),
            _ = typed.interrupts.recv() => {
                task.abort();
                return Ok(false);
            }
        };
        return match ended {
            Ok(_) => Ok(true),
            Err(why) => Err(Failure::error(format!("the login at {provider} did not work: {why}"))),
        };
    }
    loop {
        write!(io::stderr(), "Key for {provider} (it is not shown; Enter alone leaves): ").map_err(cannot)?;
        let hidden = sys::HiddenInput::start().map_err(cannot)?;
        let line = tokio::select! {
            line = typed.lines.recv() => line,
            _ = typed.interrupts.recv() => None,
        };
        drop(hidden);
        writeln!(io::stderr()).map_err(cannot)?;
        let Some(key) = line.as_deref().map(str::trim).filter(|key| !key.is_empty()) else {
            return Ok(false);
        };
        let entered = match key_form(key) {
            Ok(_) => enter(environment, settings, provider, key).await,
            Err(why) => Err(why),
        };
        match entered {
            Ok(()) => return Ok(true),
            Err(why) => writeln!(io::stderr(), "{}", becket_print::clean(&why)).map_err(cannot)?,
        }
    }
}
