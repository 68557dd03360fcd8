//! Elements of a document or array, passed to serde one after another.

use bson::RawDocument;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
    value::BorrowedStrDeserializer,
};
use steadfast_wire::{Field, Fields, fields};

use super::{
    fault::Fault,
    value::{Mode, RawValue, text},
};

/// Iterator over the remaining elements, and the element whose value is read next.
pub(super) struct Elements<'de> {
    fields: Fields<'de>,
    current: Option<Field<'de>>,
    mode: Mode,
}

impl<'de> Elements<'de> {
    /// Creates the iterator from the bytes of a document or array.
    #[inline]
    pub(super) fn new(bytes: &'de [u8], mode: Mode) -> Result<Self, Fault> {
        let document = RawDocument::from_bytes(bytes).map_err(Fault::new)?;
        Ok(Self { fields: fields(document), current: None, mode })
    }

    #[inline]
    fn step(&mut self) -> Result<Option<Field<'de>>, Fault> {
        self.current = self.fields.next();
        if self.current.is_none() && !self.fields.reached_end() {
            return Err(Fault::malformed());
        }
        Ok(self.current)
    }

    #[inline]
    fn value(&self) -> Result<(RawValue<'de>, &'de [u8]), Fault> {
        match self.current {
            Some(field) => Ok((RawValue::new(&field, self.mode), field.key)),
            None => Err(Fault::new("a value was requested before its key")),
        }
    }
}

impl<'de> MapAccess<'de> for Elements<'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<K>(&mut self, seed: K) -> Result<Option<K::Value>, Fault>
    where
        K: DeserializeSeed<'de>,
    {
        match self.step()? {
            Some(field) => {
                seed.deserialize(BorrowedStrDeserializer::new(text(field.key)?)).map(Some)
            }
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<V>(&mut self, seed: V) -> Result<V::Value, Fault>
    where
        V: DeserializeSeed<'de>,
    {
        let (value, key) = self.value()?;
        seed.deserialize(value).map_err(|fault| fault.within(key))
    }
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<T>(&mut self, seed: T) -> Result<Option<T::Value>, Fault>
    where
        T: DeserializeSeed<'de>,
    {
        match self.step()? {
            Some(field) => seed
                .deserialize(RawValue::new(&field, self.mode))
                .map(Some)
                .map_err(|fault| fault.within(field.key)),
            None => Ok(None),
        }
    }
}

/// An enum variant with a value is a document of one field, whose key is the variant.
impl<'de> EnumAccess<'de> for Elements<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V>(mut self, seed: V) -> Result<(V::Value, Self), Fault>
    where
        V: DeserializeSeed<'de>,
    {
        match self.next_key_seed(seed)? {
            Some(variant) => Ok((variant, self)),
            None => Err(Fault::new("expected an enum, found an empty document")),
        }
    }
}

impl<'de> VariantAccess<'de> for Elements<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Err(Fault::new("expected a string for an enum, found a document"))
    }

    fn newtype_variant_seed<T>(mut self, seed: T) -> Result<T::Value, Fault>
    where
        T: DeserializeSeed<'de>,
    {
        self.next_value_seed(seed)
    }

    fn tuple_variant<V>(self, _len: usize, visitor: V) -> Result<V::Value, Fault>
    where
        V: Visitor<'de>,
    {
        let (value, key) = self.value()?;
        value.deserialize_seq(visitor).map_err(|fault| fault.within(key))
    }

    fn struct_variant<V>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault>
    where
        V: Visitor<'de>,
    {
        let (value, key) = self.value()?;
        value.deserialize_map(visitor).map_err(|fault| fault.within(key))
    }
}
