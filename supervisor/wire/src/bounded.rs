//! Lists from the child that are read only up to a number of items: a few bytes each on the wire are many in memory.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// A list of at most `MOST` items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Bounded<T, const MOST: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Bounded<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded::<D, T, MOST>(deserializer).map(Self)
    }
}

/// The same for a field.
pub(crate) fn bounded<'de, D, T, const MOST: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Items<T, const MOST: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Items<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MOST} items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                if list.len() == MOST {
                    return Err(A::Error::custom(format_args!("more than {MOST} items")));
                }
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(Items::<T, MOST>(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::Bounded;

    #[test]
    fn one_too_many_is_refused() {
        let bytes = |count: usize| postcard::to_extend(&vec![(); count], Vec::new()).unwrap();
        let read = |count| postcard::from_bytes::<Bounded<(), 3>>(&bytes(count)).map(|list| list.0.len());
        assert_eq!(read(3), Ok(3));
        assert!(read(4).is_err());
    }
}
