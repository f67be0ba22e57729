//! The date here, for the system prompt.
//!
//! Reads the zone of the machine from the one file that holds it. A list of all zones, which costs a fifth of a short turn, is
//! made only where somebody names a zone.

use crate::environment::Environment;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::path::Path;

/// Maximum number of bytes of a file that describes a time zone.
const ZONE_BYTES: u64 = 1 << 20;
/// The file with the time zone of the machine on Unix.
const LOCAL: &str = "/etc/localtime";

/// Returns today's date, for example `2026-11-24`.
pub(crate) fn today(environment: &Environment) -> String {
    let zone = if environment.vars.contains_key("TZ") { None } else { local(LOCAL) };
    date(Timestamp::now(), zone.unwrap_or_else(TimeZone::system))
}

fn local(file: &str) -> Option<TimeZone> {
    TimeZone::tzif("Local", &becket_files::read(Path::new(file), ZONE_BYTES).ok()?).ok()
}

fn date(now: Timestamp, zone: TimeZone) -> String {
    now.to_zoned(zone).strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_zone_says_what_the_list_of_zones_says() {
        for name in ["Asia/Ho_Chi_Minh", "America/Los_Angeles", "Pacific/Kiritimati", "UTC"] {
            // On a machine without this file of the time zone, there is nothing to compare.
            let Some(zone) = local(&format!("/usr/share/zoneinfo/{name}")) else { continue };
            for hour in 0..48 {
                let now = Timestamp::from_second(1_795_000_000 + hour * 3_600).unwrap();
                let listed = date(now, TimeZone::get(name).unwrap());
                assert_eq!(date(now, zone.clone()), listed, "{name}, hour {hour}");
            }
        }
        assert!(
            local("/nowhere").is_none()
                && local(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).is_none()
        );
    }
}
