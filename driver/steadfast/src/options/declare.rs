//! The macros that declare options: a struct, its builder, and the setters of the actions that take
//! them.

/// Declares a struct of options and its builder.
///
/// Every field is an `Option`; a field that is not set is not sent. The struct serialises to the
/// fields of the command; a field that is not part of the command is marked `#[serde(skip)]`. With
/// `with timeout`, the options have a `timeout` before the other fields.
///
/// ```text
/// options! {
///     /// Options of `sing`.
///     pub struct SingOptions, SingOptionsBuilder, with timeout {
///         /// Volume in decibels.
///         volume: i32,
///         /// Longest time that the server may sing.
///         #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
///         max_time: Duration,
///     }
/// }
/// ```
///
/// A field whose setter the action writes itself, because it takes another type, stands in a second
/// block: `by hand { … }`.
///
/// The fields are kept in a macro of the struct's name, which [`setters!`] reads.
macro_rules! options {
    (
        $(#[doc = $doc:expr])+
        pub struct $name:ident, $builder:ident, with timeout {
            $($fields:tt)*
        } $(by hand $own:tt)?
    ) => {
        options! {
            $(#[doc = $doc])+
            pub struct $name, $builder {
                /// How long the call may take in all: to find a server, to get a connection, to be
                /// carried out, and to be tried again if need be. Zero is without end. By default
                /// what the call is made on says.
                #[serde(rename = "timeoutMS", with = "crate::serde_helpers::millis", skip_serializing)]
                timeout: std::time::Duration,
                $($fields)*
            } $(by hand $own)?
        }
    };
    (
        $(#[doc = $doc:expr])+
        pub struct $name:ident, $builder:ident {
            $($fields:tt)*
        } $(by hand { $($own:tt)* })?
    ) => {
        options!(@struct [$(#[doc = $doc])+] $name { $($fields)* $($($own)*)? });
        options!(@builder $name $builder { $($fields)* $($($own)*)? });
        options!(@fields ($) $name { $($fields)* });
    };

    // `$dollar` is a dollar sign: the macro that is declared has variables of its own.
    (@fields ($dollar:tt) $name:ident $fields:tt) => {
        #[allow(unused_macros, reason = "not all options are those of an action")]
        macro_rules! $name {
            ($dollar($dollar action:tt)*) => {
                setters! { @of $name $fields $dollar($dollar action)* }
            };
        }
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
}

/// Gives an action `with_options` and a setter for each field of its options. The action has a field
/// `options: Option<TheOptions>`.
///
/// ```text
/// setters!(SingOptions for ['a] Sing<'a>);
/// ```
macro_rules! setters {
    ($name:ident for [$($generics:tt)*] $action:ty) => {
        $name! { [$($generics)*] $action }
    };

    (@of $name:ident {
        $( $(#[doc = $field_doc:expr])+ $(#[serde($($serde:tt)*)])* $field:ident : $kind:ty ),* $(,)?
    } [$($generics:tt)*] $action:ty) => {
        const _: () = {
            // The types of the fields, by the names that they have where the options are declared.
            #[allow(unused_imports, reason = "no action has options of every type")]
            use crate::options::field_types::*;

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
    };
}
