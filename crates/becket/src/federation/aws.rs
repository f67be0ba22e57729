//! AWS credentials, found in the same order as by AWS's own tools: variables, a web identity, the profile's entry in the
//! files of `~/.aws` (keys, another role, single sign-on, a program), a container, the machine.
//!
//! Addresses are those of AWS in the configured region, or those that AWS's own variables name. Expiring keys are
//! exchanged by a [`TokenCache`].

use super::{
    REQUEST_TIMEOUT, TemporaryCredential, TokenCache, address, ask, ask_json, form, is_machine_of, now,
    request, token_in,
};
use crate::environment::Environment;
use crate::key_command::run_for_output;
use becket_model::{AwsKeys, Credential, KeySource, NoKey, Proxies, Secret, TokenBody, TokenRequest};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;
use url::{Host, Url};

type Sections = BTreeMap<String, BTreeMap<String, String>>;
type Entry = BTreeMap<String, String>;

/// Longest time for the metadata service, which is one hop away.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a chain of profiles in which each assumes its role with the keys of the next.
const MAX_ROLE_CHAIN: usize = 5;

/// A source of AWS keys, with everything that is needed to get them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AwsKeySource {
    Fixed(AwsKeys),
    WebIdentity { role: Role, file: String },
    Assumed { role: Role, by: Box<AwsKeySource> },
    SingleSignOn { profile: String, start_url: String, region: String, account: String, role: String },
    Program(String),
    Container { url: String, token: Option<String>, token_file: Option<String> },
    Machine(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Role {
    arn: String,
    session: String,
    external_id: Option<String>,
}

/// The files and variables of AWS.
struct Sources<'a> {
    environment: &'a Environment,
    credentials: Sections,
    config: Sections,
}

impl<'a> Sources<'a> {
    fn read(environment: &'a Environment) -> Self {
        Self {
            environment,
            credentials: sections(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: sections(environment, "AWS_CONFIG_FILE", "config"),
        }
    }

    fn var(&self, name: &str) -> Option<String> {
        self.environment.var(name).map(str::to_owned)
    }

    fn in_config(&self, profile: &str) -> Option<&Entry> {
        self.config.get(&format!("profile {profile}")).or_else(|| self.config.get(profile))
    }

    fn key_source(&self, on_aws: impl Fn() -> bool) -> Option<AwsKeySource> {
        // Credentials in variables win, even if a profile is named.
        if let (Some(id), Some(secret)) = (self.var("AWS_ACCESS_KEY_ID"), self.var("AWS_SECRET_ACCESS_KEY")) {
            let session_token = self.var("AWS_SESSION_TOKEN").map(Secret::new);
            let region = region(self.environment);
            return Some(AwsKeySource::Fixed(AwsKeys {
                id,
                secret: Secret::new(secret),
                session_token,
                region,
            }));
        }
        if let (Some(file), Some(arn)) = (self.var("AWS_WEB_IDENTITY_TOKEN_FILE"), self.var("AWS_ROLE_ARN")) {
            let session = self.var("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "becket".to_owned());
            return Some(AwsKeySource::WebIdentity { role: Role { arn, session, external_id: None }, file });
        }
        let profile = self.var("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        self.source_of_profile(&profile, MAX_ROLE_CHAIN)
            .or_else(|| self.container())
            .or_else(|| self.machine(on_aws))
    }

    fn source_of_profile(&self, profile: &str, depth: usize) -> Option<AwsKeySource> {
        let in_config = self.in_config(profile);
        if let Some(entry) = in_config.filter(|entry| entry.contains_key("role_arn")) {
            let role = Role {
                arn: entry.get("role_arn")?.clone(),
                session: entry.get("role_session_name").cloned().unwrap_or_else(|| "becket".to_owned()),
                external_id: entry.get("external_id").cloned(),
            };
            if let Some(file) = entry.get("web_identity_token_file") {
                return Some(AwsKeySource::WebIdentity { role, file: file.clone() });
            }
            let by = match (entry.get("source_profile"), entry.get("credential_source").map(String::as_str)) {
                // If `source_profile` names the profile itself, its own keys assume the role.
                (Some(source), _) if source == profile => self.fixed_keys_of_profile(profile)?,
                (Some(source), _) => self.source_of_profile(source, depth.checked_sub(1)?)?,
                (None, Some("EcsContainer")) => self.container()?,
                (None, Some("Ec2InstanceMetadata")) => self.machine(|| true)?,
                (None, Some("Environment")) => return None,
                _ => return None,
            };
            return Some(AwsKeySource::Assumed { role, by: Box::new(by) });
        }
        if let Some(way) = in_config.and_then(|entry| self.single_sign_on(profile, entry)) {
            return Some(way);
        }
        self.fixed_keys_of_profile(profile)
            .or_else(|| Some(AwsKeySource::Program(in_config?.get("credential_process")?.clone())))
    }

    /// Returns the keys of a profile.
    fn fixed_keys_of_profile(&self, profile: &str) -> Option<AwsKeySource> {
        let entries = [self.credentials.get(profile), self.in_config(profile)];
        entries.into_iter().flatten().find_map(|entry| {
            Some(AwsKeySource::Fixed(AwsKeys {
                id: entry.get("aws_access_key_id")?.clone(),
                secret: Secret::new(entry.get("aws_secret_access_key")?.as_str()),
                session_token: entry.get("aws_session_token").map(|token| Secret::new(token.as_str())),
                region: region(self.environment),
            }))
        })
    }

    fn single_sign_on(&self, profile: &str, entry: &Entry) -> Option<AwsKeySource> {
        let session =
            entry.get("sso_session").and_then(|name| self.config.get(&format!("sso-session {name}")));
        let get =
            |key: &str| session.and_then(|session| session.get(key)).or_else(|| entry.get(key)).cloned();
        Some(AwsKeySource::SingleSignOn {
            profile: profile.to_owned(),
            start_url: get("sso_start_url")?,
            region: get("sso_region")?,
            account: get("sso_account_id")?,
            role: get("sso_role_name")?,
        })
    }

    fn container(&self) -> Option<AwsKeySource> {
        let relative = self.var("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let url = relative
            .map(|path| format!("http://169.254.170.2{path}"))
            .or_else(|| self.var("AWS_CONTAINER_CREDENTIALS_FULL_URI"))?;
        Some(AwsKeySource::Container {
            url,
            token: self.var("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            token_file: self.var("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        })
    }

    fn machine(&self, on_aws: impl Fn() -> bool) -> Option<AwsKeySource> {
        if self.var("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        match self.var("AWS_EC2_METADATA_SERVICE_ENDPOINT") {
            Some(endpoint) => Some(AwsKeySource::Machine(endpoint)),
            None => on_aws().then(|| AwsKeySource::Machine("http://169.254.169.254".to_owned())),
        }
    }
}

/// Returns the credential, if there is one. Keys that expire are asked for with the first request.
pub(crate) fn credential(environment: &Environment, configured_region: Option<String>) -> Option<Credential> {
    let way = Sources::read(environment).key_source(|| is_machine_of("sys_vendor", "Amazon EC2"))?;
    let region = configured_region.or_else(|| region(environment));
    if let AwsKeySource::Fixed(mut keys) = way {
        keys.region = region;
        return Some(Credential::Aws(keys));
    }
    let aws = Aws {
        proxies: environment.proxies(),
        region: region.clone().unwrap_or_else(|| "us-east-1".to_owned()),
        sts: environment.var("AWS_ENDPOINT_URL_STS").map(str::to_owned),
        sso: environment.var("AWS_ENDPOINT_URL_SSO").map(str::to_owned),
        sso_cache: environment.of_home(".aws/sso/cache"),
    };
    let identity = way.identity();
    let exchange = move || {
        let (aws, way) = (aws.clone(), way.clone());
        Box::pin(async move {
            let hint = way.hint();
            aws.keys(way).await.map_err(|why| NoKey { why: format!("AWS: {why}"), hint })
        }) as BoxFuture<'static, _>
    };
    let keeper = TokenCache::new(environment, "bedrock", &identity, exchange);
    Some(Credential::AwsAsked(KeySource::new(move |refused| {
        let (keeper, region) = (keeper.clone(), region.clone());
        Box::pin(async move { Ok(keys(keeper.get(refused).await?, region)) })
    })))
}

fn keys(grant: TemporaryCredential, region: Option<String>) -> AwsKeys {
    AwsKeys {
        id: grant.id.unwrap_or_default(),
        secret: Secret::new(grant.secret),
        session_token: grant.session.map(Secret::new),
        region,
    }
}

impl AwsKeySource {
    /// Distinguishes this identity from others, without its secret.
    fn identity(&self) -> String {
        match self {
            Self::Fixed(keys) => keys.id.clone(),
            Self::WebIdentity { role, file } => format!("{role:?} {file}"),
            Self::Assumed { role, by } => format!("{role:?} {}", by.identity()),
            Self::SingleSignOn { start_url, account, role, .. } => format!("{start_url} {account} {role}"),
            Self::Program(command) => command.clone(),
            Self::Container { url, .. } => url.clone(),
            Self::Machine(endpoint) => endpoint.clone(),
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::SingleSignOn { profile, .. } => format!("Run `aws sso login --profile {profile}`."),
            Self::Program(_) => "Check credential_process of the profile in ~/.aws/config.".to_owned(),
            Self::WebIdentity { .. } => "Check AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE.".to_owned(),
            Self::Assumed { by, .. } => by.hint(),
            _ => "Check the AWS credentials (`aws sts get-caller-identity`).".to_owned(),
        }
    }
}

/// Everything that requests to AWS need, besides the source of the keys.
#[derive(Clone)]
struct Aws {
    proxies: Proxies,
    region: String,
    /// Addresses that AWS's variables name in place of the usual ones.
    sts: Option<String>,
    sso: Option<String>,
    sso_cache: Option<PathBuf>,
}

impl Aws {
    fn keys(self, way: AwsKeySource) -> BoxFuture<'static, Result<TemporaryCredential, String>> {
        async move {
            match way {
                AwsKeySource::Fixed(keys) => Ok(TemporaryCredential {
                    secret: keys.secret.reveal().to_owned(),
                    id: Some(keys.id),
                    session: keys.session_token.map(|token| token.reveal().to_owned()),
                    until: u64::MAX,
                    only_in_memory: false,
                }),
                AwsKeySource::WebIdentity { role, file } => {
                    let token = token_in(&file)?;
                    let action = ("Action", "AssumeRoleWithWebIdentity");
                    self.assume(&role, &[action, ("WebIdentityToken", &token)], None).await
                }
                AwsKeySource::Assumed { role, by } => {
                    let by = keys(self.clone().keys(*by).await?, None);
                    let mut fields = vec![("Action", "AssumeRole")];
                    fields.extend(role.external_id.as_deref().map(|id| ("ExternalId", id)));
                    self.assume(&role, &fields, Some(by)).await
                }
                AwsKeySource::SingleSignOn { start_url, region, account, role, .. } => {
                    self.sso_credential(&start_url, &region, &account, &role).await
                }
                AwsKeySource::Program(command) => run(&command).await,
                AwsKeySource::Container { url, token, token_file } => {
                    let url = address(&url)?;
                    if url.scheme() != "https" && !is_loopback_or_container_host(&url) {
                        return Err(format!(
                            "the address of the container's credentials is neither encrypted nor on this machine: {url}"
                        ));
                    }
                    let token = match token_file {
                        Some(file) => Some(token_in(&file)?),
                        None => token,
                    };
                    let mut request = request(url, TokenBody::None);
                    request.headers = token.map(|token| ("authorization".to_owned(), token)).into_iter().collect();
                    parse_credential(&ask_json(&self.proxies, request).await?)
                }
                AwsKeySource::Machine(endpoint) => self.metadata_credential(&endpoint).await,
            }
        }
        .boxed()
    }

    /// Asks the security token service for keys of a role. Its answers are XML.
    async fn assume(
        &self,
        role: &Role,
        fields: &[(&str, &str)],
        by: Option<AwsKeys>,
    ) -> Result<TemporaryCredential, String> {
        let usual = format!("https://sts.{}.amazonaws.com/", label(&self.region)?);
        let mut all =
            vec![("Version", "2011-06-15"), ("RoleArn", &role.arn), ("RoleSessionName", &role.session)];
        all.extend_from_slice(fields);
        let mut request = request(address(self.sts.as_deref().unwrap_or(&usual))?, form(&all));
        request.sign = by.map(|keys| (keys, self.region.clone(), "sts".to_owned()));
        let xml = ask(&self.proxies, request).await?;
        let get = |name: &str| element(&xml, name).map(str::to_owned);
        let until = get("Expiration").and_then(|time| time.parse::<jiff::Timestamp>().ok());
        Ok(TemporaryCredential {
            id: Some(get("AccessKeyId").ok_or("the role has no keys")?),
            secret: get("SecretAccessKey").ok_or("the role has no keys")?,
            session: get("SessionToken"),
            until: until.map_or_else(|| now() + 900, |time| time.as_second().max(0) as u64),
            only_in_memory: false,
        })
    }

    /// Exchanges the token of `aws sso login`, which is in a file of its cache.
    async fn sso_credential(
        &self,
        start_url: &str,
        region: &str,
        account: &str,
        role: &str,
    ) -> Result<TemporaryCredential, String> {
        let dir = self.sso_cache.as_deref().ok_or("there is no home folder with a login")?;
        let token = sso_token(dir, start_url).ok_or("the login has expired, or there is none")?;
        let usual = format!("https://portal.sso.{}.amazonaws.com", label(region)?);
        let base = self.sso.as_deref().unwrap_or(&usual).trim_end_matches('/');
        let mut url = address(&format!("{base}/federation/credentials"))?;
        url.query_pairs_mut().append_pair("role_name", role).append_pair("account_id", account);
        let mut request = request(url, TokenBody::None);
        request.headers = vec![("x-amz-sso_bearer_token".to_owned(), token)];
        let json = ask_json(&self.proxies, request).await?;
        let keys = &json["roleCredentials"];
        let text = |key: &str| keys[key].as_str().map(str::to_owned);
        Ok(TemporaryCredential {
            id: Some(text("accessKeyId").ok_or("the role has no keys")?),
            secret: text("secretAccessKey").ok_or("the role has no keys")?,
            session: text("sessionToken"),
            until: keys["expiration"].as_u64().unwrap_or_default() / 1000,
            only_in_memory: false,
        })
    }

    /// Asks the metadata service of the machine (IMDSv2).
    async fn metadata_credential(&self, endpoint: &str) -> Result<TemporaryCredential, String> {
        let base = endpoint.trim_end_matches('/');
        let at = |path: &str, body: TokenBody, header: (&str, &str)| {
            Ok::<_, String>(TokenRequest {
                headers: vec![(header.0.to_owned(), header.1.to_owned())],
                timeout: METADATA_TIMEOUT,
                ..request(address(&format!("{base}/latest/{path}"))?, body)
            })
        };
        let ttl = ("x-aws-ec2-metadata-token-ttl-seconds", "21600");
        let token = ask(&self.proxies, at("api/token", TokenBody::EmptyPut, ttl)?).await?;
        let proof = ("x-aws-ec2-metadata-token", token.trim());
        let roles = "meta-data/iam/security-credentials/";
        let role = ask(&self.proxies, at(roles, TokenBody::None, proof)?).await?;
        let role = role.lines().next().unwrap_or_default().trim().to_owned();
        if role.is_empty() || role.contains('/') {
            return Err("this machine has no role".to_owned());
        }
        parse_credential(
            &ask_json(&self.proxies, at(&format!("{roles}{role}"), TokenBody::None, proof)?).await?,
        )
    }
}

/// Parses keys as containers, machines and programs give them.
fn parse_credential(json: &Value) -> Result<TemporaryCredential, String> {
    let text = |key: &str| json[key].as_str().map(str::to_owned);
    let until = text("Expiration").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    Ok(TemporaryCredential {
        id: Some(text("AccessKeyId").ok_or("there are no keys in the answer")?),
        secret: text("SecretAccessKey").ok_or("there are no keys in the answer")?,
        session: text("Token").or_else(|| text("SessionToken")),
        // If the answer names no expiry, the keys are requested again after 15 minutes.
        until: until.map_or_else(|| now() + 900, |time| time.as_second().max(0) as u64),
        only_in_memory: false,
    })
}

/// Runs the program of `credential_process`, as AWS's tools do.
async fn run(command: &str) -> Result<TemporaryCredential, String> {
    let mut shell = Command::new("/bin/sh");
    let printed = run_for_output(shell.args(["-c", command]), REQUEST_TIMEOUT).await;
    let printed = printed.map_err(|why| format!("credential_process {why}"))?;
    let json = becket_types::parse_json_bytes(&printed).map_err(|_| "credential_process printed no JSON")?;
    parse_credential(&json)
}

/// Returns the token of a login to this address that is still valid.
fn sso_token(dir: &Path, start_url: &str) -> Option<String> {
    std::fs::read_dir(dir).ok()?.filter_map(Result::ok).find_map(|entry| {
        let json: Value = serde_json::from_str(&std::fs::read_to_string(entry.path()).ok()?).ok()?;
        let until = json["expiresAt"].as_str()?.replace("UTC", "Z").parse::<jiff::Timestamp>().ok()?;
        let fits = json["startUrl"].as_str()?.trim_end_matches('/') == start_url.trim_end_matches('/');
        (fits && until.as_second() > i64::try_from(now()).ok()?).then_some(())?;
        json["accessToken"].as_str().map(str::to_owned)
    })
}

/// Checks that a region can be part of a host name. Other characters could lead to another host.
fn label(region: &str) -> Result<&str, String> {
    let plain = !region.is_empty() && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if plain { Ok(region) } else { Err("the region is not a name of a region".to_owned()) }
}

/// Returns the text of the first element with this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

/// True for this machine and for the addresses at which AWS gives credentials to containers.
fn is_loopback_or_container_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => {
            ip.is_loopback() || [[169, 254, 170, 2], [169, 254, 170, 23]].contains(&ip.octets())
        }
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.to_string() == "fd00:ec2::23",
        None => false,
    }
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
            let keys = match Sources::read(&environment).key_source(|| false) {
                Some(AwsKeySource::Fixed(keys)) => Some(keys),
                None => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(keys.as_ref().map(|keys| keys.id.as_str()), id, "{vars:?}");
            assert_eq!(keys.is_some_and(|keys| keys.session_token.is_some()), token, "{vars:?}");
            assert_eq!(region(&environment).as_deref(), region_of, "{vars:?}");
        }
    }

    #[test]
    fn other_ways_are_found_as_the_vendor_s_tools_find_them() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".aws")).unwrap();
        std::fs::write(
            dir.path().join(".aws/config"),
            "[profile sso]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n[sso-session s]\nsso_start_url = https://s/start\nsso_region = eu-west-1\n\
             [profile role]\nrole_arn = arn:r\nsource_profile = program\nexternal_id = e\n[profile program]\ncredential_process = /bin/p x\n\
             [profile web]\nrole_arn = arn:w\nweb_identity_token_file = /t\n[profile loop]\nrole_arn = a\nsource_profile = pool\n[profile pool]\nrole_arn = b\nsource_profile = loop\n\
             [profile box]\nrole_arn = arn:b\ncredential_source = Ec2InstanceMetadata\n",
        )
        .unwrap();
        for (vars, on_aws, want) in [
            (&[][..], false, None),
            (&[], true, Some("http://169.254.169.254")),
            (&[("AWS_EC2_METADATA_DISABLED", "true")], true, None),
            (&[("AWS_PROFILE", "sso")], true, Some("https://s/start 1 r")),
            (&[("AWS_PROFILE", "program")], true, Some("/bin/p x")),
            (&[("AWS_PROFILE", "loop")], false, None),
            (&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")], true, Some("http://169.254.170.2/x")),
        ] {
            let environment = environment(dir.path(), vars);
            let identity = Sources::read(&environment).key_source(|| on_aws).map(|way| way.identity());
            assert_eq!(identity.as_deref(), want, "{vars:?}");
        }
        for (profile, contains) in [("role", "/bin/p x"), ("web", "/t"), ("box", "169.254.169.254")] {
            let environment = environment(dir.path(), &[("AWS_PROFILE", profile)]);
            let identity = Sources::read(&environment).key_source(|| false).unwrap().identity();
            assert!(identity.contains(contains), "{profile}: {identity}");
        }
        let web = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/f"), ("AWS_ROLE_ARN", "arn:x"), ("AWS_PROFILE", "sso")];
        let environment = environment(dir.path(), &web);
        assert!(matches!(
            Sources::read(&environment).key_source(|| false),
            Some(AwsKeySource::WebIdentity { .. })
        ));
    }

    #[test]
    fn credentials_of_a_container_come_from_near_or_encrypted() {
        for (url, near) in [
            ("http://169.254.170.2/x", true),
            ("http://169.254.170.23/x", true),
            ("http://[fd00:ec2::23]/x", true),
            ("http://127.0.0.1:80/x", true),
            ("http://169.254.1.1/x", false),
            ("http://example.com/x", false),
        ] {
            assert_eq!(is_loopback_or_container_host(&Url::parse(url).unwrap()), near, "{url}");
        }
        assert!(label("eu-west-1").is_ok() && label("x.example.com/#").is_err() && label("").is_err());
        assert_eq!(element("<A><AccessKeyId>x</AccessKeyId></A>", "AccessKeyId"), Some("x"));
    }
}
