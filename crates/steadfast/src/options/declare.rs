//! The macro that declares options once: as a struct, as its builder, and as setters of an action.

/// Declares a struct of options, its builder, and the setters of the actions that take it.
///
/// Every field is an `Option`; what is not set is not sent. Serialising gives the fields of the
/// command, so a field that is no field of the command is marked `#[serde(skip)]`. An action that
/// takes them has a field `options: Option<TheOptions>`. The options of an action that talks to a
/// server have a `timeout` without saying so; those of an action `untimed for` have none.
///
/// ```text
/// options! {
///     /// How to sing.
///     pub struct SingOptions, SingOptionsBuilder, for ['a] Sing<'a> {
///         /// How loud.
///         volume: i32,
///         /// For how long at most.
///         #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
///         max_time: Duration,
///     }
/// }
/// ```
///
/// A field whose setter the action has to write itself, because it takes something else, stands in
/// a second block: `by hand { … }`.
macro_rules! options {
    (
        $(#[doc = $doc:expr])+
        pub struct $name:ident, $builder:ident $(, for [$($generics:tt)*] $action:ty)+ {
            $($fields:tt)*
        } $(by hand $own:tt)?
    ) => {
        options! {
            $(#[doc = $doc])+
            pub struct $name, $builder $(, untimed for [$($generics)*] $action)+ {
                /// How long the call may take in all: to find a server, to get a connection, to be
                /// carried out, and to be tried again if need be. Zero is without end. By default
                /// what the call is made on says.
                #[serde(rename = "timeoutMS", with = "crate::options::millis", skip_serializing)]
                timeout: std::time::Duration,
                $($fields)*
            } $(by hand $own)?
        }
    };
    (
        $(#[doc = $doc:expr])+
        pub struct $name:ident, $builder:ident $(, untimed for [$($generics:tt)*] $action:ty)* {
            $($fields:tt)*
        } $(by hand { $($own:tt)* })?
    ) => {
        options!(@struct [$(#[doc = $doc])+] $name { $($fields)* $($($own)*)? });
        options!(@builder $name $builder { $($fields)* $($($own)*)? });
        options!(@actions $name [$([$($generics)*] $action;)*] { $($fields)* });
    };

    // The fields as one token, so that they can be repeated for each action.
    (@actions $name:ident [$([$($generics:tt)*] $action:ty;)*] $fields:tt) => {
        $( options!(@setters $name [$($generics)*] $action, $fields); )*
    };

    (@struct [$(#[$doc:meta])+] $name:ident {
        $( $(#[doc = $field_doc:expr])+ $(#[serde($($serde:tt)*)])* $field:ident : $kind:ty ),* $(,)?
    }) => {
        $(#[$doc])+
        #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[doc = $field_doc])+
                $(#[serde($($serde)*)])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$kind>,
            )*
        }
    };

    (@builder $name:ident $builder:ident {
        $( $(#[doc = $field_doc:expr])+ $(#[serde($($serde:tt)*)])* $field:ident : $kind:ty ),* $(,)?
    }) => {
        impl $name {
            #[doc = concat!("Begins to build [`", stringify!($name), "`].")]
            pub fn builder() -> $builder {
                $builder($name::default())
            }
        }

        #[doc = concat!("Builds [`", stringify!($name), "`].")]
        #[derive(Clone, Debug, Default)]
        #[must_use]
        pub struct $builder($name);

        impl $builder {
            $(
                $(#[doc = $field_doc])+
                pub fn $field(mut self, value: impl Into<Option<$kind>>) -> Self {
                    self.0.$field = value.into();
                    self
                }
            )*

            /// The options as they were set.
            pub fn build(self) -> $name {
                self.0
            }
        }
    };

    (@setters $name:ident [$($generics:tt)*] $action:ty, {
        $( $(#[doc = $field_doc:expr])+ $(#[serde($($serde:tt)*)])* $field:ident : $kind:ty ),* $(,)?
    }) => {
        impl<$($generics)*> $action {
            #[doc = concat!("Takes all its options from [`", stringify!($name), "`].")]
            pub fn with_options(mut self, value: impl Into<Option<$name>>) -> Self {
                self.options = value.into();
                self
            }

            $(
                $(#[doc = $field_doc])+
                pub fn $field(mut self, value: $kind) -> Self {
                    self.options.get_or_insert_default().$field = Some(value);
                    self
                }
            )*
        }
    };
}
pub(crate) use options;
