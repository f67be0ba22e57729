//! `update_settings`: writes a setting of the program to a file of settings.
//!
//! As in the SDK, only a few keys can be written: `effortLevel` in the user's file, which takes effect with the next session, and the
//! `outputStyle` `default` of the project, for which nothing needs to be written. Everything else is refused, and then nothing is written.

use super::listing::EFFORTS;
use crate::environment::Environment;
use crate::interactive::preferences;
use becket_config::Amend;
use serde_json::{Value, json};

pub(super) fn write(environment: &Environment, body: &Value) -> Result<Value, String> {
    let source = body.get("source").and_then(Value::as_str).unwrap_or_default();
    let settings = body.get("settings").and_then(Value::as_object);
    let settings = settings.filter(|settings| !settings.is_empty());
    let settings = settings.ok_or("update_settings needs `settings`, an object with a key")?;
    let mut effort = None;
    for (key, value) in settings {
        match (source, key.as_str(), value.as_str()) {
            ("userSettings", "effortLevel", Some(level)) if EFFORTS.contains(&level) => effort = Some(level),
            ("userSettings", "effortLevel", _) => {
                return Err(format!("effortLevel {value} is none of {}", EFFORTS.join(", ")));
            }
            ("localSettings", "outputStyle", Some("default")) => {}
            _ => {
                return Err(format!(
                    "update_settings cannot set {key} of {source} to {value}: it writes effortLevel of userSettings and the outputStyle \
                     default of localSettings; apply_flag_settings changes other settings for this session"
                ));
            }
        }
    }
    if let Some(level) = effort {
        let file = environment.config_dir.join("config.toml");
        preferences::change(&file, "", "effort", &Amend::Set(Value::from(level)))?;
    }
    Ok(json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_s_effort_is_written_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let file = environment.config_dir.join("config.toml");
        let ask = |source: &str, settings: Value| {
            write(&environment, &json!({ "source": source, "settings": settings }))
        };
        for (source, settings, why) in [
            ("userSettings", json!({}), "needs `settings`"),
            ("userSettings", json!({ "effortLevel": "huge" }), "none of low"),
            ("userSettings", json!({ "effortLevel": null }), "none of low"),
            (
                "userSettings",
                json!({ "effortLevel": "high", "model": "opus" }),
                "cannot set model of userSettings",
            ),
            ("localSettings", json!({ "effortLevel": "high" }), "cannot set effortLevel of localSettings"),
            ("localSettings", json!({ "outputStyle": "loud" }), "cannot set outputStyle"),
            ("projectSettings", json!({ "outputStyle": "default" }), "of projectSettings"),
        ] {
            let said = ask(source, settings.clone()).unwrap_err();
            assert!(said.contains(why) && !file.exists(), "{settings}: {said}");
        }
        assert_eq!(ask("localSettings", json!({ "outputStyle": "default" })), Ok(json!({})));
        assert!(!file.exists());
        std::fs::create_dir_all(&environment.config_dir).unwrap();
        std::fs::write(&file, "# mine\nmodel = \"anthropic/x\"\n\n[ui]\nvim = true\n").unwrap();
        assert_eq!(ask("userSettings", json!({ "effortLevel": "high" })), Ok(json!({})));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# mine\n") && text.contains("\neffort = \"high\"\n"), "{text}");
        assert!(text.find("effort").unwrap() < text.find("[ui]").unwrap(), "{text}");
    }
}
