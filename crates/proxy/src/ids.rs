//! Identifiers. A client is not a request, a request is not a server, and none of them is a number
//! to calculate with.

use std::num::NonZeroU32;

use krarup_service::LANES;

/// A number that names one thing of its kind, from zero up.
pub(crate) trait Identifier: Copy {
    fn new(number: u32) -> Self;
    fn number(self) -> u32;
    /// The number and one more: a place in a list whose first place is not used.
    fn place(self) -> usize;
}

/// An `Option` of such an identifier takes no more room than itself.
macro_rules! identifier {
    ($($(#[$about:meta])* $name:ident)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(NonZeroU32);

        impl Identifier for $name {
            #[inline]
            fn new(number: u32) -> Self {
                Self(NonZeroU32::MIN.checked_add(number).expect("fewer than four billion of a kind"))
            }

            #[inline]
            fn number(self) -> u32 {
                self.0.get() - 1
            }

            #[inline]
            fn place(self) -> usize {
                self.0.get() as usize
            }
        }
    )*};
}

identifier! {
    /// A client, as long as it is connected; afterwards the number may be another's.
    ClientId
    /// A request, until it is finished and no server owes an answer for it; afterwards the number
    /// may be another's.
    RequestId
    /// A sampled request, until it has ended; afterwards the number may be another's.
    SampleId
}

/// A server, for ever: what is configured no more keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerId(u16);

impl ServerId {
    pub(crate) fn new(number: usize) -> Self {
        Self(u16::try_from(number).expect("fewer than 65,536 servers"))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// As rows have it.
    #[inline]
    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

/// A pool, for ever, like a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolId(u16);

impl PoolId {
    pub(crate) fn new(number: usize) -> Self {
        Self(u16::try_from(number).expect("fewer than 65,536 pools"))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A connection to a server: the first one, or a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(usize);

impl ConnectionId {
    /// The one of this number, as the driver has it.
    #[inline]
    pub(crate) fn new(number: usize) -> Self {
        Self(number)
    }

    pub(crate) fn lane(index: usize) -> Self {
        Self(LANES + index)
    }

    #[inline]
    pub(crate) fn number(self) -> usize {
        self.0
    }

    /// The server that it is the first connection to, or the place of the lane.
    #[inline]
    pub(crate) fn place(self) -> Result<usize, usize> {
        if self.0 < LANES { Ok(self.0) } else { Err(self.0 - LANES) }
    }

    /// Which of the connections to its server it is, as rows have it: zero is the first. Lanes of
    /// all servers are numbered together.
    #[inline]
    pub(crate) fn lane_number(self) -> u16 {
        self.place().map_or_else(|lane| ((lane + 1) % usize::from(u16::MAX)) as u16, |_| 0)
    }

    #[inline]
    pub(crate) fn is_lane(self) -> bool {
        self.0 >= LANES
    }
}

impl From<ServerId> for ConnectionId {
    #[inline]
    fn from(server: ServerId) -> Self {
        Self(server.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_out_as_it_went_in_and_none_takes_no_room() {
        for number in [0, 1, u32::MAX - 1] {
            assert_eq!(RequestId::new(number).number(), number);
        }
        assert_eq!(size_of::<Option<ClientId>>(), size_of::<u32>());
    }
}
