//! `$sum`, `$avg`, `$min`, `$max` and standard deviations, for arguments and for groups.

use bson::Bson;

use super::node::{Arguments, Value};
use crate::{
    Collation, Fault,
    value::{self, Decimal, Number, is_nullish},
};

/// Accumulator over values.
#[derive(Clone, Debug)]
pub(crate) enum SimpleAccumulator {
    Sum(Sum),
    Average { sum: Sum, count: u64 },
    Min(Option<Bson>),
    Max(Option<Bson>),
    StdDev { is_sample: bool, variance: RunningVariance },
}

impl SimpleAccumulator {
    /// Returns the accumulator of an operator.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let deviation =
            |is_sample| Self::StdDev { is_sample, variance: RunningVariance::default() };
        Some(match name {
            "$sum" => Self::Sum(Sum::default()),
            "$avg" => Self::Average { sum: Sum::default(), count: 0 },
            "$min" => Self::Min(None),
            "$max" => Self::Max(None),
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
            Self::Min(_) | Self::Max(_) if is_nullish(&value) => {}
            Self::Min(min) => {
                let less = |it: &Bson| value::compare(&value, it, collation).is_lt();
                if min.as_ref().is_none_or(less) {
                    *min = Some(value);
                }
            }
            Self::Max(max) => {
                let greater = |it: &Bson| value::compare(&value, it, collation).is_gt();
                if max.as_ref().is_none_or(greater) {
                    *max = Some(value);
                }
            }
            Self::StdDev { variance, .. } => {
                if let Some(number) = Number::of(&value) {
                    variance.add(number.to_f64());
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
            Self::Min(value) | Self::Max(value) => value.unwrap_or(Bson::Null),
            Self::StdDev { is_sample, variance } => {
                let divisor =
                    if is_sample { variance.count.saturating_sub(1) } else { variance.count };
                if divisor == 0 {
                    return Bson::Null;
                }
                Bson::Double((variance.squares / divisor as f64).sqrt())
            }
        }
    }
}

/// Compensated sum: a double, and the rounding errors of the additions.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    widest: Width,
    /// Without infinities and NaN.
    total: f64,
    rest: f64,
    /// Uncompensated sum, for infinities and NaN.
    plain: f64,
    /// Exact sum of integers.
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
        // The initial zero is negative, so that a sum of negative zeros is negative.
        Self { widest: Width::Int, total: -0.0, rest: 0.0, plain: -0.0, whole: 0, decimal: None }
    }
}

impl Sum {
    /// Adds a value. Returns `false` if it is not a number.
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
        // Both parts are exact as doubles.
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
            true => Decimal::from_double(self.plain),
            false => {
                Decimal::from_double_exact(self.total).plus(Decimal::from_double_exact(self.rest))
            }
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
            return Bson::Decimal128(self.decimal().divided_by(count).into());
        }
        Bson::Double(self.double() / count as f64)
    }
}

/// Running variance.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningVariance {
    count: u64,
    mean: f64,
    squares: f64,
}

impl RunningVariance {
    #[allow(clippy::cast_precision_loss)]
    fn add(&mut self, number: f64) {
        self.count += 1;
        let delta = number - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (number - self.mean);
    }
}

/// Evaluates over the arguments, or over the elements of a single array argument.
pub(super) fn evaluate(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let Some(mut summary) = SimpleAccumulator::named(arguments.name()) else { return Ok(None) };
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
