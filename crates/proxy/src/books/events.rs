//! Things that happened.

/// Things that happened, each counted when it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Events {
    /// Connections accepted.
    pub clients_accepted: u64,
    /// Connections that are gone, for whatever reason.
    pub clients_closed: u64,
    /// Connections refused because there were too many.
    pub clients_refused: u64,
    /// Requests accepted. Each ends as one recorded visit.
    pub requests: u64,
    /// Requests that several servers answered differently.
    pub disagreements: u64,
    /// Connections to servers lost, or attempts that failed.
    pub server_losses: u64,
    /// Connections to servers that were closed because an answer was not what was asked for.
    pub desynchronised: u64,
    /// Connections to servers that were closed because an answer did not come in time.
    pub timeouts: u64,
    /// Times a client was not listened to because a bound was reached.
    pub held_back: u64,
    /// Servers ejected because they failed time and again.
    pub ejections: u64,
    /// Requests refused because the command is not allowed.
    #[serde(default)]
    pub commands_refused: u64,
    /// Clients disconnected because they said nothing, or took too long over one request.
    #[serde(default)]
    pub clients_timed_out: u64,
    /// Clients disconnected because the memory was used up and they did not read.
    #[serde(default)]
    pub clients_cut: u64,
    /// Clients disconnected before it was known who they are: too slow, too many, or a wrong
    /// password too often.
    #[serde(default)]
    pub clients_unknown: u64,
    /// Wrong passwords.
    #[serde(default)]
    pub logins_failed: u64,
}

impl Events {
    pub(super) fn absorb(&mut self, other: &Self) {
        let Self {
            clients_accepted,
            clients_closed,
            clients_refused,
            requests,
            disagreements,
            server_losses,
            desynchronised,
            timeouts,
            held_back,
            ejections,
            commands_refused,
            clients_timed_out,
            clients_cut,
            clients_unknown,
            logins_failed,
        } = other;
        for (ours, theirs) in [
            (&mut self.clients_accepted, clients_accepted),
            (&mut self.clients_closed, clients_closed),
            (&mut self.clients_refused, clients_refused),
            (&mut self.requests, requests),
            (&mut self.disagreements, disagreements),
            (&mut self.server_losses, server_losses),
            (&mut self.desynchronised, desynchronised),
            (&mut self.timeouts, timeouts),
            (&mut self.held_back, held_back),
            (&mut self.ejections, ejections),
            (&mut self.commands_refused, commands_refused),
            (&mut self.clients_timed_out, clients_timed_out),
            (&mut self.clients_cut, clients_cut),
            (&mut self.clients_unknown, clients_unknown),
            (&mut self.logins_failed, logins_failed),
        ] {
            *ours += theirs;
        }
    }
}
