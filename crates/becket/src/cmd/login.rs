//! `becket login`, `logout` and `auth status`: keys in the system's keychain or the user's own file, logins by a browser or
//! a code, and the keys in use.
//!
//! Owns reading a key without showing it, and the messages about keys. A key is never printed and never an argument,
//! because others on this machine can see arguments.

use crate::args::{AuthStatusArgs, ConfigArgs, LoginArgs, LogoutArgs};
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::federation::device::{DeviceLogin, Prompt};
use crate::keys::{self, KeyLocation, KeyStore};
use crate::settings::configuration;
use crate::{models, providers};
use becket_config::{Settings, Source, Vendor, kept_name, vendor};
use becket_model::{ErrorKind, ModelRef, probe};
use becket_print::ExitStatus;
use becket_types::edit_distance;
use serde_json::json;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, Write};
use std::path::Path;

/// Maximum number of bytes of a key. A longer text is probably a file by mistake.
const MAX_KEY_BYTES: u64 = 16 * 1024;

pub(crate) fn login(
    environment: &Environment,
    cwd: &Path,
    args: &LoginArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let settings = read_settings(environment, cwd)?;
    if let Some(name) = &args.provider {
        check_name(&settings, name)?;
    }
    if !keys::may_be_kept(environment, &crate::settings::project_root(cwd)) {
        return Err(Failure::usage(
            "the key would be saved in this repository, because your configuration is inside it",
        )
        .hint("set XDG_CONFIG_HOME to a folder outside, or use the provider's variable"));
    }
    let device =
        args.provider.as_deref().and_then(|name| DeviceLogin::from_environment(environment, &settings, name));
    if let Some(device) = device.filter(|_| !args.browser) {
        return device_login(&device, args, out);
    }
    let key = if args.browser {
        let address = args.provider.as_deref().and_then(|name| settings.address(name));
        super::browser_login::key(environment, args.provider.as_deref(), address.as_deref())?
    } else {
        read_key(args.provider.as_deref())?
    };
    let provider = match &args.provider {
        Some(name) => name.clone(),
        None => keys::provider(&key)
            .map_err(|why| Failure::usage(why).hint("name the provider: becket login PROVIDER"))?
            .to_owned(),
    };
    let address = settings.address(&provider);
    let kept = kept_name(&provider, address.as_deref());
    let place = if args.file { KeyStore::File } else { KeyStore::Keychain };
    let saved = keys::keep(environment, &kept, &key, place).map_err(Failure::error)?;
    let server = kept.split_once('@').map(|(_, host)| host.to_owned());
    let variables = vendor(&provider).map(|vendor| vendor.keys).unwrap_or_default();
    let before = configuration_key(environment, cwd, &provider)?;
    let overrides = variables.iter().find(|name| before.as_deref() == Some(**name));
    if args.json {
        let saved_in = match saved {
            KeyLocation::Keychain => keys::KEYCHAIN.to_owned(),
            KeyLocation::File(_) => keys::path(environment).display().to_string(),
        };
        let said = json!({ "provider": provider, "saved_in": saved_in, "server": server, "overridden_by": overrides });
        write(out, &format!("{said}\n"))?;
        return Ok(ExitStatus::Ok);
    }
    let server = server.map(|host| format!(" and is sent only to {host}")).unwrap_or_default();
    write(out, &format!("The key for {provider} is saved in {}{server}.\n", saved.describe(environment)))?;
    // A server of the user's own may have keys of any form.
    if !kept.contains('@')
        && let Some(start) = keys::missing_start(&provider, &key)
    {
        let text = format!(
            "Keys of {provider} begin with {start}, and this one does not. To check it: becket auth status {provider} --check\n"
        );
        write(out, &text)?;
    }
    if let Some(variable) = overrides {
        write(out, &format!("{variable} is set and overrides it; unset it to use the saved key.\n"))?;
    }
    Ok(ExitStatus::Ok)
}

/// Logs in with a code that the user enters in a browser.
fn device_login(login: &DeviceLogin, args: &LoginArgs, out: &mut dyn Write) -> Result<ExitStatus, Failure> {
    let provider = args.provider.as_deref().unwrap_or_default();
    let show = |prompt: &Prompt| {
        // The address and the code go to stderr, because they are not output of the command.
        let mut screen = std::io::stderr();
        let _ = writeln!(
            screen,
            "Open {} in a browser, on this device or another one, and enter this code: {}",
            prompt.address, prompt.code
        );
        if let Some(complete) = &prompt.complete {
            let _ = writeln!(screen, "This address has the code in it: {complete}");
        }
        let _ = writeln!(
            screen,
            "The code is valid for {} min. Ctrl-C ends the wait.",
            prompt.lifetime.as_secs().div_ceil(60)
        );
    };
    let place = if args.file { KeyStore::File } else { KeyStore::Keychain };
    let kept = crate::runtime()?.block_on(login.log_in(&show, place)).map_err(|why| {
        Failure::error(format!("the login at {provider} did not work: {why}"))
            .hint(format!("run `becket login {provider}` again, or check providers.{provider}.login"))
    })?;
    if args.json {
        let saved_in = match &kept {
            KeyLocation::Keychain => keys::KEYCHAIN.to_owned(),
            KeyLocation::File(_) => login.place(&KeyLocation::File(None)),
        };
        write(out, &format!("{}\n", json!({ "provider": provider, "saved_in": saved_in })))?;
    } else {
        write(
            out,
            &format!("You are logged in at {provider}. The login is saved in {}.\n", login.place(&kept)),
        )?;
    }
    Ok(ExitStatus::Ok)
}

pub(crate) fn logout(
    environment: &Environment,
    cwd: &Path,
    args: &LogoutArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let settings = read_settings(environment, cwd)?;
    check_name(&settings, &args.provider)?;
    let login = DeviceLogin::from_environment(environment, &settings, &args.provider);
    let logged_out = login.map_or(Ok(false), |login| login.forget()).map_err(Failure::error)?;
    let removed = keys::forget(environment, &args.provider).map_err(Failure::error)? || logged_out;
    let path = keys::path(environment);
    let variables = vendor(&args.provider).map(|vendor| vendor.keys).unwrap_or_default();
    let still_set = variables.iter().find(|name| environment.var(name).is_some());
    if args.json {
        let said = json!({ "provider": args.provider, "removed": removed, "file": path.to_string_lossy(), "still_set": still_set });
        write(out, &format!("{said}\n"))?;
        return Ok(ExitStatus::Ok);
    }
    let text = if removed {
        format!("The key for {} is removed.\n", args.provider)
    } else {
        format!("There is no key for {} in {}.\n", args.provider, path.display())
    };
    write(out, &text)?;
    if let Some(variable) = still_set {
        write(out, &format!("{variable} is still set in your environment.\n"))?;
    }
    Ok(ExitStatus::Ok)
}

/// Prints which providers have a key. Exit code 0: there is a key; 1: there is none; 2: a provider refused its key.
pub(crate) fn status(
    environment: &Environment,
    cwd: &Path,
    args: &AuthStatusArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let settings = read_settings(environment, cwd)?;
    if let Some(name) = &args.provider {
        check_known(&settings, name)?;
    }
    let endpoints = models::model_settings(environment, &settings);
    let names: Vec<&str> = providers::names(&settings)
        .filter(|name| args.provider.as_deref().is_none_or(|wanted| wanted == *name))
        .filter(|name| endpoints.endpoint(name).is_some_and(|endpoint| endpoint.credential.is_some()))
        .collect();
    let checked: Vec<Option<ErrorKind>> = if args.check {
        crate::runtime()?.block_on(async {
            let asked = names.iter().map(|name| {
                let endpoints = &endpoints;
                async move { probe::list(&ModelRef::named(name, ""), endpoints).await.err().map(|e| e.kind) }
            });
            futures::future::join_all(asked).await
        })
    } else {
        vec![None; names.len()]
    };
    let state = |error: &Option<ErrorKind>| match error {
        None if args.check => "valid",
        None => "not asked",
        Some(ErrorKind::Auth) => "refused",
        Some(_) => "unreachable",
    };
    let rows: Vec<(&str, String, &str)> = names
        .iter()
        .zip(&checked)
        .map(|(name, error)| {
            (*name, providers::key_place(name, &settings, &endpoints).unwrap_or_default(), state(error))
        })
        .collect();
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, key, state)| json!({ "provider": name, "key": key, "state": state }))
            .collect();
        write(out, &format!("{}\n", json!(rows)))?;
    } else {
        for (name, key, state) in &rows {
            let state = if args.check { format!(", {state}") } else { String::new() };
            write(out, &format!("{name}: key in {key}{state}\n"))?;
        }
        let wanted = |name: &str| args.provider.as_deref().is_none_or(|provider| provider == name);
        for (_, held) in settings.withheld.iter().filter(|(name, _)| wanted(name)) {
            write(out, &format!("{}.\n", held.message()))?;
        }
        if rows.is_empty() {
            let whose = args.provider.as_deref().map(|name| format!(" for {name}")).unwrap_or_default();
            let login = args.provider.as_deref().unwrap_or("PROVIDER");
            write(out, &format!("There is no key{whose}. `becket login {login}` saves one.\n"))?;
        }
    }
    Ok(match () {
        () if rows.is_empty() => ExitStatus::Error,
        () if checked.contains(&Some(ErrorKind::Auth)) => ExitStatus::Usage,
        () => ExitStatus::Ok,
    })
}

/// Returns the failure for a key among the arguments of a command about keys. clap's own message would repeat it, and
/// with it the key would come into logs and onto screens.
pub(crate) fn key_as_argument(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let (command, rest) = words.split_first()?;
    if !matches!(command.to_str(), Some("login" | "logout" | "auth")) || !error.use_stderr() {
        return None;
    }
    let rest: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
    let value =
        |word: &str| word.split_once('=').filter(|_| word.starts_with('-')).map(|(_, v)| v.to_owned());
    let is_key = |word: &str| keys::looks_like_key(&value(word).unwrap_or_else(|| word.to_owned()));
    // These commands take no second name, so a second one is probably a key of an unknown form.
    let is_extra = error.kind() == clap::error::ErrorKind::UnknownArgument
        && command != "auth"
        && rest.iter().filter(|word| !word.starts_with('-')).count() > 1;
    let provider = rest.iter().find_map(|word| vendor(word)).map(|vendor| vendor.name);
    (is_extra || rest.iter().any(|word| is_key(word))).then(|| no_argument(provider))
}

fn no_argument(provider: Option<&str>) -> Failure {
    let provider = provider.unwrap_or("PROVIDER");
    Failure::usage(
        "a key is never an argument: others on this machine can see it, and it is in your shell's history now",
    )
    .hint(format!(
        "run `becket login {provider}` and paste the key when it asks, or: becket login {provider} < FILE"
    ))
}

/// Returns the variable whose key is used for a provider, if one is.
fn configuration_key(
    environment: &Environment,
    cwd: &Path,
    provider: &str,
) -> Result<Option<String>, Failure> {
    let settings = read_settings(environment, cwd)?;
    Ok(settings.credentials.get(provider).and_then(|found| match &found.source {
        Source::Environment(name) => Some(name.clone()),
        _ => None,
    }))
}

fn read_settings(environment: &Environment, cwd: &Path) -> Result<Settings, Failure> {
    let config = ConfigArgs { settings: None, setting_sources: None, cd: None };
    configuration(environment, cwd, &config, Vec::new(), true)
}

/// Checks that there is such a provider, and that it accepts keys.
fn check_name(settings: &Settings, name: &str) -> Result<(), Failure> {
    check_known(settings, name)?;
    match vendor(name) {
        Some(Vendor { name: "vertex", .. }) => Err(Failure::usage(
            "vertex does not accept keys, only tokens for an identity of Google Cloud or tokens that a program prints",
        )
        .hint("run `gcloud auth application-default login`, or set providers.vertex.key_command")),
        _ => Ok(()),
    }
}

/// Checks that there is such a provider.
fn check_known(settings: &Settings, name: &str) -> Result<(), Failure> {
    if providers::names(settings).any(|known| known == name) {
        return Ok(());
    }
    if keys::looks_like_key(name) {
        return Err(no_argument(keys::provider(name).ok()));
    }
    let near = providers::names(settings).min_by_key(|known| edit_distance(known, name)).unwrap_or_default();
    let mut failure = Failure::usage(format!("there is no provider named {name}"));
    failure.hint = Some(if edit_distance(near, name) <= 2 {
        format!("did you mean {near}? `becket models` lists the providers")
    } else {
        "`becket models` lists the providers".to_owned()
    });
    Err(failure)
}

/// Reads a key from the terminal without showing it, or from standard input.
fn read_key(provider: Option<&str>) -> Result<String, Failure> {
    let cannot = |e: std::io::Error| Failure::error(format!("the key cannot be read: {e}"));
    let text = if std::io::stdin().is_terminal() {
        // The prompt goes to stderr, because it is not output of the command.
        let mut screen = std::io::stderr();
        let title =
            provider.and_then(vendor).map_or(provider.unwrap_or("your provider"), |vendor| vendor.title);
        if let Some(page) =
            provider.and_then(vendor).map(|vendor| vendor.key_page).filter(|page| !page.is_empty())
        {
            let _ = writeln!(screen, "Keys of {title}: {page}");
        }
        let _ = write!(screen, "Key for {title} (it is not shown): ");
        let hidden = crate::sys::HiddenInput::start().map_err(cannot)?;
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        drop(hidden);
        let _ = writeln!(screen);
        read.map_err(cannot)?;
        line
    } else {
        let mut text = String::new();
        std::io::stdin().take(MAX_KEY_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
        text
    };
    let key = text.trim();
    let wrong = |why: &str| {
        Err(Failure::usage(format!("this is not a key: {why}"))
            .hint("give one key on one line, such as: becket login groq < FILE"))
    };
    match key {
        "" => wrong("it is empty"),
        _ if key.len() as u64 > MAX_KEY_BYTES => wrong("it is too long"),
        _ if key.contains(['\n', '\r']) => wrong("it has more than one line"),
        _ if !key.bytes().all(|b| b.is_ascii_graphic()) => wrong("it has blanks or letters outside ASCII"),
        _ => Ok(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Sub;
    use clap::Parser as _;

    #[test]
    fn a_key_among_the_arguments_is_never_repeated() {
        const KEY: &str = "sk-secret-123456";
        for (words, wanted) in [
            (vec!["login", "groq", KEY], Some("becket login groq")),
            (vec!["login", "groq", "unknown-form"], Some("becket login groq")),
            (vec!["login", "--key", KEY], Some("becket login PROVIDER")),
            (vec!["login", "--key=sk-secret-123456"], Some("becket login PROVIDER")),
            (vec!["logout", "openai", KEY], Some("becket login openai")),
            (vec!["auth", KEY], Some("becket login PROVIDER")),
            (vec!["auth", "status", "openai", KEY], Some("becket login openai")),
            (vec!["login", "--nothing"], None),
            (vec!["auth", "state"], None),
            (vec!["sessions", KEY, KEY], None),
            (vec!["login", "--help"], None),
        ] {
            let typed: Vec<OsString> = words.iter().map(OsString::from).collect();
            let error = Sub::try_parse_from(["becket"].iter().chain(&words)).map(|_| ()).unwrap_err();
            let failure = key_as_argument(&error, &typed).map(|failure| failure.to_string());
            assert_eq!(failure.is_some(), wanted.is_some(), "{words:?}");
            if let (Some(said), Some(wanted)) = (failure, wanted) {
                assert!(said.contains(wanted) && !said.contains("secret"), "{said}");
                assert!(!said.contains("unknown-form"), "{said}");
            }
        }
        // A key was typed in place of the provider's name.
        for name in [KEY, "gsk_0123456789abcdef0123"] {
            let said = check_name(&Settings::default(), name).unwrap_err().to_string();
            assert!(said.contains("a key is never an argument") && !said.contains(name), "{said}");
        }
        let said = check_name(&Settings::default(), "grok").unwrap_err().to_string();
        assert!(said.contains("there is no provider named grok"), "{said}");
    }
}
