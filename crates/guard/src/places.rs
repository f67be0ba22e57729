//! Places of secrets on a machine: the folders and files of the user and of the system that hold keys, tokens and cookies.
//! For a sandbox, which hides places by path. Files that are secret by their name, in any folder, are listed in `secret`.
//!
//! Nothing is looked up on disk.

use std::path::{Path, PathBuf};

/// Below the user's home folder.
const HOME: &[&str] = &[
    // Keys.
    ".ssh",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".config/age",
    ".config/sops",
    ".pki",
    ".putty",
    // Clouds, registries and hosts of code.
    ".aws",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".docker",
    ".config/containers/auth.json",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/doctl",
    ".config/hcloud",
    ".config/rclone",
    ".config/op",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".config/1Password",
    ".1password",
    ".config/heroku",
    ".config/netlify",
    ".config/configstore",
    ".vercel",
    ".fly",
    ".oci",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".config/git/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".local/share/gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet/NuGet.Config",
    ".config/NuGet/NuGet.Config",
    ".subversion/auth",
    ".pulumi/credentials.json",
    ".circleci/cli.yml",
    ".sentryclirc",
    ".step/secrets",
    ".minikube/profiles",
    ".huggingface/token",
    ".mc/config.json",
    ".dbt/profiles.yml",
    ".vagrant.d/insecure_private_key",
    ".vagrant.d/insecure_private_keys",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".pgpass",
    ".my.cnf",
    ".boto",
    ".s3cfg",
    ".htpasswd",
    ".authinfo",
    ".authinfo.gpg",
    ".msmtprc",
    ".fetchmailrc",
    ".dockercfg",
    ".sbt/.credentials",
    ".ivy2/.credentials",
    ".config/uv/credentials.toml",
    ".local/share/uv/credentials",
    ".config/pypoetry/auth.toml",
    ".cache/huggingface/token",
    ".kaggle/kaggle.json",
    ".databrickscfg",
    ".snowflake",
    ".local/share/com.vercel.cli",
    ".netlify",
    ".config/ngrok",
    ".config/stripe",
    ".cloudflared",
    ".wrangler",
    ".tsh",
    ".mylogin.cnf",
    ".config/tea",
    ".config/scw",
    ".config/filezilla",
    ".config/goa-1.0",
    ".Xauthority",
    // Wallets.
    ".bitcoin",
    ".ethereum",
    ".electrum",
    ".config/solana",
    ".monero",
    // Chats.
    ".config/Slack",
    ".config/discord",
    ".config/Signal",
    ".purple",
    ".config/keepassxc",
    // Other agents and editors.
    ".config/Code/User/globalStorage",
    ".config/Cursor/User/globalStorage",
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json",
    ".config/github-copilot",
    ".config/goose",
    // Browsers and mail.
    ".mozilla",
    ".config/google-chrome",
    ".config/google-chrome-beta",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".thunderbird",
    "snap/firefox",
    "snap/chromium",
    ".var/app",
    "Library/Keychains",
    "Library/Cookies",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    // Histories of shells and consoles.
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".mysql_history",
    ".python_history",
    ".node_repl_history",
    ".rediscli_history",
    ".sqlite_history",
    ".local/share/fish/fish_history",
];

/// Of the system. Most are closed to all but root; commands may run as root.
const SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/NetworkManager/system-connections",
    "/etc/wpa_supplicant",
    "/run/secrets",
    "/var/run/secrets",
    "/var/lib/docker",
    "/var/lib/sss",
];

/// All places that hold secrets for a user with this home folder, whether they exist or not.
pub fn secret_places(home: Option<&Path>) -> Vec<PathBuf> {
    let own = home.into_iter().flat_map(|home| HOME.iter().map(move |name| home.join(name)));
    own.chain(SYSTEM.iter().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_below_home_and_of_the_system() {
        let places = secret_places(Some(Path::new("/home/u")));
        assert!(places.contains(&PathBuf::from("/home/u/.ssh")));
        assert!(places.contains(&PathBuf::from("/etc/shadow")));
        for name in [
            ".pulumi/credentials.json",
            ".local/share/gem/credentials",
            ".m2/settings.xml",
            ".gradle/gradle.properties",
            ".subversion/auth",
            ".circleci/cli.yml",
            ".sentryclirc",
            ".step/secrets",
            ".minikube/profiles",
            ".huggingface/token",
            ".mc/config.json",
            ".dbt/profiles.yml",
            ".nuget/NuGet/NuGet.Config",
            ".vagrant.d/insecure_private_key",
        ] {
            assert!(places.contains(&Path::new("/home/u").join(name)), "{name}");
        }
        assert!(places.iter().all(|place| place.is_absolute()));
        assert_eq!(secret_places(None).len(), SYSTEM.len());
    }
}
