//! Macros that declare options: the struct, its builder, and the setters of actions.

/// Declares a struct of options and its builder.
///
/// Every field is an `Option`; a field that is `None` is not sent. The struct serializes to the
/// fields of the command; a field that is not part of the command is marked `#[serde(skip)]`.
/// `with timeout` adds the field `timeout` before the others.
///
/// ```text
/// options! {
///     /// Options of [`sing`](crate::Collection::sing).
///     pub struct SingOptions, SingOptionsBuilder, with timeout {
///         /// Volume in decibels (`volume`). Defaults to 60.
///         volume: i32,
///         /// Limit on the server's processing time (`maxTimeMS`).
///         #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
///         max_time: Duration,
///     }
/// }
/// ```
///
/// A field whose setter accepts another type is in a second block, `by hand { … }`: the action
/// writes that setter itself.
///
/// The list of fields is kept in a macro with the name of the struct, which [`setters!`] reads.
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
                /// Time-out of the whole call (`timeoutMS`): server selection, connection checkout, execution and
                /// retries. Zero means no limit. Defaults to the time-out of the object that the method is called
                /// on. See
                /// [client-side operations timeout](https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md).
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

    // `$dollar` is a dollar sign: the generated macro has variables of its own.
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
            #[doc = concat!("Returns a builder for [`", stringify!($name), "`].")]
            pub fn builder() -> $builder {
                $builder($name::default())
            }
        }

        #[doc = concat!("Builder for [`", stringify!($name), "`].")]
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

            /// Returns the options.
            pub fn build(self) -> $name {
                self.0
            }
        }
    };
}

/// Implements `with_options` and a setter for each field of the options. The action has a field
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
            // Types of the fields, by the names used where the options are declared.
            #[allow(unused_imports, reason = "no action has options of every type")]
            use crate::options::field_types::*;

            impl<$($generics)*> $action {
                #[doc = concat!("Sets all options, from [`", stringify!($name), "`].")]
                pub fn with_options(mut self, value: impl Into<Option<$name>>) -> Self {
                    self.options = value.into();
                    self
                }

                $(
                    setters! { @setter [$(#[doc = $field_doc])+] $field: $kind }
                )*
            }
        };
    };

    // The setters of some fields accept every type that converts to that of the field.
    (@setter [$(#[$doc:meta])+] comment: $kind:ty) => {
        setters! { @setter_into [$(#[$doc])+] comment: impl Into<$kind>, Into::into }
    };
    (@setter [$(#[$doc:meta])+] view_on: $kind:ty) => {
        setters! { @setter_into [$(#[$doc])+] view_on: impl Into<$kind>, Into::into }
    };
    (@setter [$(#[$doc:meta])+] array_filters: $kind:ty) => {
        setters! { @setter_into [$(#[$doc])+] array_filters: impl IntoIterator<Item = Document>, documents }
    };
    (@setter [$(#[$doc:meta])+] pipeline: $kind:ty) => {
        setters! { @setter_into [$(#[$doc])+] pipeline: impl IntoIterator<Item = Document>, documents }
    };
    (@setter [$(#[$doc:meta])+] $field:ident: $kind:ty) => {
        $(#[$doc])+
        pub fn $field(mut self, value: $kind) -> Self {
            self.options.get_or_insert_default().$field = Some(value);
            self
        }
    };
    (@setter_into [$(#[$doc:meta])+] $field:ident: $accepted:ty, $convert:path) => {
        $(#[$doc])+
        pub fn $field(mut self, value: $accepted) -> Self {
            self.options.get_or_insert_default().$field = Some($convert(value));
            self
        }
    };
}
