//! Where in a pool its servers stand.

use crate::ids::ServerId;

/// The places of a pool's servers, by the numbers of the servers: a read does not search for them.
#[derive(Debug)]
pub(super) struct PlacesByServer(Vec<u16>);

/// What stands there for a server that is not in the pool.
const NONE: u16 = u16::MAX;

impl PlacesByServer {
    pub(super) fn of(servers: &[ServerId]) -> Self {
        let most = servers.iter().map(|server| server.index() + 1).max();
        let mut places = vec![NONE; most.unwrap_or(0)];
        for (place, server) in servers.iter().enumerate() {
            places[server.index()] = place as u16;
        }
        Self(places)
    }

    /// The place of a server; none: it is not in the pool.
    #[inline]
    pub(super) fn of_server(&self, server: ServerId) -> Option<usize> {
        self.0.get(server.index()).filter(|&&place| place != NONE).map(|&place| usize::from(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_the_place_at_which_it_was_named_and_others_have_none() {
        let places = PlacesByServer::of(&[5, 2, 9].map(ServerId::new));
        let found = [5, 2, 9, 0, 3, 10, 70].map(|server| places.of_server(ServerId::new(server)));
        assert_eq!(found, [Some(0), Some(1), Some(2), None, None, None, None]);
        assert_eq!(PlacesByServer::of(&[]).of_server(ServerId::new(0)), None);
    }
}
