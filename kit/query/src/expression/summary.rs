//! Sums, averages, extremes and deviations: of arguments, and of the documents of a group.

use bson::Bson;

use super::node::{Arguments, Value};
use crate::{
    Collation, Fault,
    value::{self, Decimal, Number, is_nullish},
};

/// What summarises values that come one by one.
#[derive(Clone, Debug)]
pub(crate) enum Summary {
    Sum(Sum),
    Average { sum: Sum, count: u64 },
    Least(Option<Bson>),
    Greatest(Option<Bson>),
    Deviation { of_a_sample: bool, spread: Spread },
}

impl Summary {
    /// The one that an operator names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let deviation = |of_a_sample| Self::Deviation { of_a_sample, spread: Spread::default() };
        Some(match name {
            "$sum" => Self::Sum(Sum::default()),
            "$avg" => Self::Average { sum: Sum::default(), count: 0 },
            "$min" => Self::Least(None),
            "$max" => Self::Greatest(None),
            "$stdDevPop" => deviation(false),
            "$stdDevSamp" => deviation(true),
            _ => return None,
        })
    }

    pub(crate) fn add(&mut self, value: Bson, collation: &Collation) {
        match self {
            Self::Sum(sum) => {
                sum.add(&value);
            }
            Self::Average { sum, count } => *count += u64::from(sum.add(&value)),
            Self::Least(_) | Self::Greatest(_) if is_nullish(&value) => {}
            Self::Least(least) => {
                let less = |it: &Bson| value::compare(&value, it, collation).is_lt();
                if least.as_ref().is_none_or(less) {
                    *least = Some(value);
                }
            }
            Self::Greatest(greatest) => {
                let greater = |it: &Bson| value::compare(&value, it, collation).is_gt();
                if greatest.as_ref().is_none_or(greater) {
                    *greatest = Some(value);
                }
            }
            Self::Deviation { spread, .. } => {
                if let Some(number) = Number::of(&value) {
                    spread.add(number.to_f64());
                }
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn value(self) -> Bson {
        match self {
            Self::Sum(sum) => sum.value(),
            Self::Average { count: 0, .. } => Bson::Null,
            Self::Average { sum, count } => sum.divided(count),
            Self::Least(value) | Self::Greatest(value) => value.unwrap_or(Bson::Null),
            Self::Deviation { of_a_sample, spread } => {
                let divisor =
                    if of_a_sample { spread.count.saturating_sub(1) } else { spread.count };
                if divisor == 0 {
                    return Bson::Null;
                }
                Bson::Double((spread.squares / divisor as f64).sqrt())
            }
        }
    }
}

/// A sum that does not lose what is small beside what is large: a double, and what it leaves out.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    widest: Width,
    /// Without what is not finite.
    total: f64,
    rest: f64,
    /// The plain sum, for infinities and what is no number.
    plain: f64,
    /// Of integers, exactly, as long as there is nothing else.
    whole: i128,
    decimal: Option<Decimal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Int,
    Long,
    Double,
    Decimal,
}

impl Default for Sum {
    fn default() -> Self {
        // Zero is negative until something is added, so that a sum of negative zeros is one.
        Self { widest: Width::Int, total: -0.0, rest: 0.0, plain: -0.0, whole: 0, decimal: None }
    }
}

impl Sum {
    /// Adds a number, and says whether it was one.
    fn add(&mut self, value: &Bson) -> bool {
        match Number::of(value) {
            None => return false,
            Some(Number::Int(number)) => self.add_whole(number.into(), Width::Int),
            Some(Number::Long(number)) => self.add_whole(number, Width::Long),
            Some(Number::Double(number)) => {
                self.widen(Width::Double);
                self.add_double(number);
            }
            Some(Number::Decimal(number)) => {
                self.widen(Width::Decimal);
                self.decimal = Some(match self.decimal {
                    Some(sum) => sum.plus(number),
                    None => number,
                });
            }
        }
        true
    }

    fn widen(&mut self, width: Width) {
        self.widest = self.widest.max(width);
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn add_whole(&mut self, number: i64, width: Width) {
        self.widen(width);
        self.whole += i128::from(number);
        // In two parts, each of which a double holds exactly.
        let high = (number >> 32) << 32;
        self.add_double(high as f64);
        self.add_double((number - high) as f64);
    }

    fn add_double(&mut self, number: f64) {
        self.plain += number;
        let sum = self.total + number;
        let carried = sum - self.total;
        self.rest += (self.total - (sum - carried)) + (number - carried);
        self.total = sum;
    }

    fn double(&self) -> f64 {
        let sum = self.total + self.rest;
        if sum.is_nan() { self.plain } else { sum }
    }

    fn decimal(&self) -> Decimal {
        let others = match (self.total + self.rest).is_nan() {
            true => Decimal::of_double(self.plain),
            false => Decimal::nearest(self.total).plus(Decimal::nearest(self.rest)),
        };
        match self.decimal {
            Some(decimal) if self.total == 0.0 && self.rest == 0.0 => decimal,
            Some(decimal) => decimal.plus(others),
            None => others,
        }
    }

    fn value(self) -> Bson {
        match (self.widest, i64::try_from(self.whole)) {
            (Width::Int, Ok(whole)) => i32::try_from(whole).map_or(Bson::Int64(whole), Bson::Int32),
            (Width::Long, Ok(whole)) => Bson::Int64(whole),
            (Width::Decimal, _) => Bson::Decimal128(self.decimal().into()),
            (Width::Int | Width::Long | Width::Double, _) => Bson::Double(self.double()),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn divided(self, count: u64) -> Bson {
        if self.widest == Width::Decimal {
            let count = Number::Long(i64::try_from(count).unwrap_or(i64::MAX)).to_decimal();
            return Bson::Decimal128(self.decimal().over(count).into());
        }
        Bson::Double(self.double() / count as f64)
    }
}

/// How far numbers are from their mean, kept as they come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Spread {
    #[allow(clippy::cast_precision_loss)]
    fn add(&mut self, number: f64) {
        self.count += 1;
        let delta = number - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (number - self.mean);
    }
}

/// An operator on its arguments, or on the elements of the only one.
pub(super) fn evaluate(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let Some(mut summary) = Summary::named(arguments.name()) else { return Ok(None) };
    for index in 0..arguments.len() {
        match arguments.value(index)? {
            Some(Bson::Array(array)) if arguments.len() == 1 => {
                array.into_iter().for_each(|it| summary.add(it, collation));
            }
            Some(value) => summary.add(value, collation),
            None => {}
        }
    }
    Ok(Some(summary.value()))
}
