//! Whether what is on disk at the primary is also at a standby: what a fail-over can lose.
//!
//! PostgreSQL's own words:
//! <https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION>.

use tokio_postgres::Error;

use super::blocking::BlockingSession;

/// Subscribers of logical replication are no standbys, and copies that are being made are none yet.
/// Without the right pg_read_all_stats it cannot be seen for which of them commits wait.
const STANDBYS: &str = "SELECT coalesce(nullif(application_name, ''), 'of process ' || pid), sync_state \
                        FROM pg_catalog.pg_stat_replication AS standby \
                        WHERE coalesce(state, '') <> 'backup' \
                          AND NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots AS slot \
                                          WHERE slot.active_pid = standby.pid AND slot.slot_type = 'logical') \
                        ORDER BY 1";
const SETTINGS: &str = "SELECT pg_catalog.current_setting('synchronous_standby_names'), \
                               pg_catalog.current_setting('synchronous_commit')";

/// How this database is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Replication {
    /// Its standbys that are connected, and whether a commit waits for each; none: that may not be
    /// seen.
    standbys: Vec<(String, Option<bool>)>,
    /// For which standbys commits wait; empty: for none.
    names: String,
    /// What a commit waits for.
    commit: String,
}

impl Replication {
    pub(super) fn of(client: &mut BlockingSession) -> Result<Self, Error> {
        let settings = client.query_one(SETTINGS, &[])?;
        let standbys = client.query(STANDBYS, &[])?.into_iter().map(|row| {
            let state: Option<String> = row.get(1);
            (row.get(0), state.map(|state| state == "sync" || state == "quorum"))
        });
        Ok(Self { standbys: standbys.collect(), names: settings.get(0), commit: settings.get(1) })
    }

    /// What an operator should know; empty: nothing that was answered is lost by a fail-over to a
    /// standby for which commits wait, or there is no standby.
    pub(super) fn warnings(&self) -> Vec<String> {
        let named = |is: fn(Option<bool>) -> bool| -> Vec<&str> {
            self.standbys.iter().filter(|(_, waits)| is(*waits)).map(|(name, _)| name.as_str()).collect()
        };
        let mut warnings = Vec::new();
        if self.names.is_empty() {
            let all = named(|_| true);
            if !all.is_empty() {
                warnings.push(format!(
                    "no commit waits for a standby, and there is one ({}): what was answered last is lost by a fail-over to it; \
                     synchronous_standby_names of the server makes commits wait",
                    all.join(", ")
                ));
            }
            return warnings;
        }
        if self.commit == "local" {
            warnings.push(format!(
                "synchronous_commit is local for this user and database: no commit waits for the standbys that \
                 synchronous_standby_names names ({}), and what was answered last is lost by a fail-over",
                self.names
            ));
        }
        let (behind, waits) = (named(|waits| waits == Some(false)), named(|waits| waits != Some(false)));
        if waits.is_empty() {
            warnings.push(format!(
                "no standby is connected of those that commits wait for (synchronous_standby_names = {}): every put waits until one is",
                self.names
            ));
        } else if !behind.is_empty() {
            warnings.push(format!(
                "no commit waits for the standby {}: what was answered last is lost by a fail-over to it; promote one of: {}",
                behind.join(", "),
                waits.join(", ")
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(standbys: &[(&str, Option<bool>)], names: &str, commit: &str) -> Vec<String> {
        let standbys = standbys.iter().map(|(name, waits)| ((*name).to_owned(), *waits)).collect();
        Replication { standbys, names: names.into(), commit: commit.into() }.warnings()
    }

    #[test]
    fn a_standby_that_commits_do_not_wait_for_is_named() {
        assert_eq!(warnings(&[], "", "on"), Vec::<String>::new());
        assert_eq!(warnings(&[("b", Some(true))], "*", "on"), Vec::<String>::new());
        // What may not be seen is not guessed.
        assert_eq!(warnings(&[("of process 7", None)], "*", "on"), Vec::<String>::new());
        for (standbys, names, commit, says) in [
            (&[("b", Some(false))][..], "", "on", "there is one (b)"),
            (&[("of process 7", None)], "", "on", "of process 7"),
            (&[("b", Some(true)), ("c", Some(false))], "b", "on", "the standby c"),
            (&[("b", Some(true))], "*", "local", "synchronous_commit is local"),
            (&[], "b", "on", "every put waits"),
            (&[("c", Some(false))], "b", "on", "every put waits"),
        ] {
            let found = warnings(standbys, names, commit);
            assert!(found.len() == 1 && found[0].contains(says), "{standbys:?} {names}: {found:?}");
        }
    }
}
