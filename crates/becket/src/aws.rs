//! AWS credentials, found in the same order as by AWS's own tools: variables first, then the profile's entry in the
//! files of `~/.aws`.

use crate::environment::Environment;
use becket_model::{AwsKeys, Secret};
use std::collections::BTreeMap;
use std::path::PathBuf;

type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the credentials, if there are any.
pub(crate) fn keys(environment: &Environment) -> Option<AwsKeys> {
    let named = environment.var("AWS_PROFILE");
    // Credentials in variables win, even if a profile is named.
    if let (Some(id), Some(secret)) =
        (environment.var("AWS_ACCESS_KEY_ID"), environment.var("AWS_SECRET_ACCESS_KEY"))
    {
        let session_token = environment.var("AWS_SESSION_TOKEN").map(Secret::new);
        let (id, secret, region) = (id.to_owned(), Secret::new(secret), region(environment));
        return Some(AwsKeys { id, secret, session_token, region });
    }
    let profile = named.unwrap_or("default");
    let credentials = sections(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
    let config = sections(environment, "AWS_CONFIG_FILE", "config");
    let in_config = config.get(&format!("profile {profile}")).or_else(|| config.get(profile));
    [credentials.get(profile), in_config].into_iter().flatten().find_map(|entry| {
        Some(AwsKeys {
            id: entry.get("aws_access_key_id")?.clone(),
            secret: Secret::new(entry.get("aws_secret_access_key")?.as_str()),
            session_token: entry.get("aws_session_token").map(|token| Secret::new(token.as_str())),
            region: region(environment),
        })
    })
}

/// Returns the region from a variable, else from the profile.
pub(crate) fn region(environment: &Environment) -> Option<String> {
    let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|name| environment.var(name));
    if let Some(region) = named {
        return Some(region.to_owned());
    }
    let profile = environment.var("AWS_PROFILE").unwrap_or("default");
    let config = sections(environment, "AWS_CONFIG_FILE", "config");
    let entry = config.get(&format!("profile {profile}")).or_else(|| config.get(profile))?;
    entry.get("region").cloned()
}

fn sections(environment: &Environment, variable: &str, file: &str) -> Sections {
    let path = environment
        .var(variable)
        .map(PathBuf::from)
        .or_else(|| Some(environment.of_home(".aws")?.join(file)));
    let text = path.and_then(|path| becket_config::read_text(&path).ok().flatten()).unwrap_or_default();
    parse(&text)
}

fn parse(text: &str) -> Sections {
    let mut out = Sections::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = name.split_whitespace().collect::<Vec<_>>().join(" ");
        } else if let Some((key, value)) = line.split_once('=') {
            out.entry(section.clone())
                .or_default()
                .insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(dir: &std::path::Path, vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Environment { vars, home: Some(dir.to_owned()), ..Environment::below(dir) }
    }

    #[test]
    fn keys_are_found_as_the_vendor_s_tools_find_them() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".aws")).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(dir.path().join(".aws").join(name), text).unwrap();
        write(
            "credentials",
            "[default]\naws_access_key_id = AKID1\naws_secret_access_key=s1\n# x\n[work]\naws_access_key_id=AKID2\naws_secret_access_key=s2\naws_session_token=t2\n",
        );
        write(
            "config",
            "[default]\nregion = eu-west-1\n[profile work]\nregion=us-west-2\n[profile empty]\nregion=x\n",
        );
        for (vars, id, token, region_of) in [
            (&[][..], Some("AKID1"), false, Some("eu-west-1")),
            (&[("AWS_PROFILE", "work")], Some("AKID2"), true, Some("us-west-2")),
            (&[("AWS_PROFILE", "empty")], None, false, Some("x")),
            (&[("AWS_PROFILE", "none")], None, false, None),
            (
                &[("AWS_ACCESS_KEY_ID", "AKID3"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "r")],
                Some("AKID3"),
                false,
                Some("r"),
            ),
        ] {
            let environment = environment(dir.path(), vars);
            let keys = keys(&environment);
            assert_eq!(keys.as_ref().map(|keys| keys.id.as_str()), id, "{vars:?}");
            assert_eq!(keys.is_some_and(|keys| keys.session_token.is_some()), token, "{vars:?}");
            assert_eq!(region(&environment).as_deref(), region_of, "{vars:?}");
        }
    }
}
