//! Choices that are sent, read and shown as words, where a newer server may know more of them.

/// Gives an enum with a variant `Other(String)` the words of its other variants.
macro_rules! words {
    ($choice:ty { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $choice {
            fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(other) => other,
                }
            }
        }

        impl From<String> for $choice {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $($word => Self::$variant,)*
                    _ => Self::Other(text),
                }
            }
        }

        impl serde::Serialize for $choice {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $choice {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer).map(Self::from)
            }
        }
    };
}
pub(crate) use words;
