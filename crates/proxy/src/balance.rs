//! Which server gets the next read: the one that was given the least work so far.
//!
//! Work is counted in keys asked for. In the long run every server is given the same, and a server that
//! got a long multi-get is passed over until the others have caught up.

/// Work given to each server so far.
#[derive(Debug)]
pub(crate) struct Balance {
    given: Vec<u64>,
    up: Vec<bool>,
    /// Room for an order of the servers.
    order: Vec<usize>,
}

impl Balance {
    pub(crate) fn new(servers: usize) -> Self {
        Self { given: vec![0; servers], up: vec![false; servers], order: Vec::with_capacity(servers) }
    }

    /// A server can be asked again. It starts level with the least loaded of the others: what it missed
    /// while it was away would otherwise come over it all at once.
    pub(crate) fn came_up(&mut self, server: usize) {
        let level = self.up().map(|other| self.given[other]).min();
        if let Some(level) = level {
            self.given[server] = self.given[server].max(level);
        }
        self.up[server] = true;
    }

    /// A server cannot be asked.
    pub(crate) fn went_down(&mut self, server: usize) {
        self.up[server] = false;
    }

    fn up(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.given.len()).filter(|&server| self.up[server])
    }

    /// The server for a request of `keys` keys, which then counts as given; none if none is up.
    pub(crate) fn one(&mut self, keys: usize) -> Option<usize> {
        let server = self.up().min_by_key(|&server| self.given[server])?;
        self.given[server] += keys as u64;
        Some(server)
    }

    /// Divides `keys` keys evenly over the servers that are up, in runs that differ by at most one key; the longer
    /// runs go to those with the least work. Fewer keys than servers ask fewer servers.
    /// Calls `run(server, keys)` in the order of the keys.
    pub(crate) fn even(&mut self, keys: usize, mut run: impl FnMut(usize, usize)) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(self.up());
        order.sort_by_key(|&server| self.given[server]);
        order.truncate(keys);
        if let Some(short) = keys.checked_div(order.len()) {
            let longer = keys % order.len();
            for (place, &server) in order.iter().enumerate() {
                let length = short + usize::from(place < longer);
                self.given[server] += length as u64;
                run(server, length);
            }
        }
        self.order = order;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_up(servers: usize) -> Balance {
        let mut balance = Balance::new(servers);
        (0..servers).for_each(|server| balance.came_up(server));
        balance
    }

    #[test]
    fn seven_keys_over_three_servers_are_three_two_and_two() {
        let mut balance = all_up(3);
        let mut runs = Vec::new();
        balance.even(7, |server, keys| runs.push((server, keys)));
        assert_eq!(runs, [(0, 3), (1, 2), (2, 2)]);
        runs.clear();
        balance.even(2, |server, keys| runs.push((server, keys)));
        assert_eq!(runs, [(1, 1), (2, 1)]);
    }

    #[test]
    fn a_server_that_returns_is_not_made_to_catch_up() {
        let mut balance = all_up(2);
        balance.went_down(0);
        for _ in 0..1_000 {
            assert_eq!(balance.one(1), Some(1));
        }
        balance.came_up(0);
        let to_the_first = (0..100).filter(|_| balance.one(1) == Some(0)).count();
        assert_eq!(to_the_first, 50);
    }

    #[test]
    fn with_no_server_up_nobody_is_asked() {
        let mut balance = Balance::new(2);
        assert_eq!(balance.one(1), None);
        balance.even(5, |_, _| panic!("nobody is up"));
    }

    proptest! {
        /// Every key goes to exactly one server, and the work given never differs by more than one request's keys.
        #[test]
        fn work_is_even_in_the_long_run(servers in 1_usize..8, requests in proptest::collection::vec((1_usize..20, any::<bool>()), 1..200)) {
            let mut balance = all_up(servers);
            for (keys, whole) in requests {
                if whole {
                    prop_assert!(balance.one(keys).is_some());
                } else {
                    let mut sum = 0;
                    let mut lengths = Vec::new();
                    balance.even(keys, |_, length| { sum += length; lengths.push(length); });
                    prop_assert_eq!(sum, keys);
                    prop_assert_eq!(lengths.len(), servers.min(keys));
                    prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
                }
                let (least, most) = (balance.given.iter().min().unwrap(), balance.given.iter().max().unwrap());
                prop_assert!(most - least <= 20);
            }
        }
    }
}
