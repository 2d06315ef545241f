//! Identifiers. A client is not a request, a request is not a server, and none of them is a number to calculate with.

use std::num::NonZeroU32;

/// A number that names one thing of its kind, from zero up.
pub(crate) trait Identifier: Copy {
    fn new(number: u32) -> Self;
    fn number(self) -> u32;
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
                Self(NonZeroU32::new(!number).expect("fewer than four billion of a kind"))
            }

            #[inline]
            fn number(self) -> u32 {
                !self.0.get()
            }
        }
    )*};
}

identifier! {
    /// A client, as long as it is connected; afterwards the number may be another's.
    ClientId
    /// A request, until it is finished and no server owes an answer for it; afterwards the number may be another's.
    RequestId
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
