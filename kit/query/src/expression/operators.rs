//! Which operators there are, what arguments each takes, and what computes it.

use bson::Bson;

use super::{
    angles, arithmetic, array_order, arrays, binding, compare, convert, date_arithmetic, date_text,
    dates, logic,
    node::{Arguments, Node, Value},
    objects,
    parse::Parser,
    pattern, rounding, sets, strings, summary,
};
use crate::Fault;

/// An operator.
#[derive(Debug)]
pub(super) struct Operator {
    /// With its `$`.
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) function: fn(&Arguments<'_>) -> Result<Value, Fault>,
    /// Whether its value for constants is computed once, while the expression is read.
    pub(super) folds: bool,
}

/// What arguments an operator takes.
#[derive(Debug)]
pub(super) enum Form {
    Exactly(usize),
    Between(usize, usize),
    /// Two or more, else this error.
    AtLeastTwo(i32),
    /// One, as the conversions have it.
    Single,
    Any,
    Named(&'static Named),
    /// It reads its arguments itself.
    Own(fn(&mut Parser<'_>, &'static Operator, &Bson) -> Result<Node, Fault>),
}

/// Arguments by name, with the errors when they are wrong.
#[derive(Debug)]
pub(super) struct Named {
    /// Each with the error if it is missing; `None` if it may be.
    pub(super) fields: &'static [(&'static str, Option<i32>)],
    pub(super) not_an_object: i32,
    pub(super) unknown: i32,
}

/// The operator of this name.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|it| it.name == name)
}

type Function = fn(&Arguments<'_>) -> Result<Value, Fault>;

const fn pure(name: &'static str, form: Form, function: Function) -> Operator {
    Operator { name, form, function, folds: true }
}

const fn lazy(name: &'static str, form: Form, function: Function) -> Operator {
    Operator { name, form, function, folds: false }
}

const PART: Form = Form::Own(dates::parse_part);
const PATTERN: Form = Form::Own(pattern::parse);
const FIRST_N: Form = Form::Named(&Named {
    fields: &[("n", Some(5_787_906)), ("input", Some(5_787_907))],
    not_an_object: 5_787_801,
    unknown: 5_787_901,
});
const MAX_N: Form = Form::Named(&Named {
    fields: &[("n", Some(5_787_906)), ("input", Some(5_787_907))],
    not_an_object: 5_787_900,
    unknown: 5_787_901,
});
const TRIM: Form = Form::Named(&Named {
    fields: &[("input", Some(50695)), ("chars", None)],
    not_an_object: 50696,
    unknown: 50694,
});
const REPLACE: Form = Form::Named(&Named {
    fields: &[("input", Some(51749)), ("find", Some(51748)), ("replacement", Some(51747))],
    not_an_object: 51751,
    unknown: 51750,
});
const DATE_ADD: Form = Form::Named(&Named {
    fields: &[
        ("startDate", Some(5_166_402)),
        ("unit", Some(5_166_402)),
        ("amount", Some(5_166_402)),
        ("timezone", None),
    ],
    not_an_object: 5_166_400,
    unknown: 5_166_401,
});

static OPERATORS: &[Operator] = &[
    // Numbers.
    pure("$abs", Form::Exactly(1), arithmetic::abs),
    pure("$add", Form::Any, arithmetic::add),
    pure("$ceil", Form::Exactly(1), rounding::ceil),
    pure("$divide", Form::Exactly(2), arithmetic::divide),
    pure("$exp", Form::Exactly(1), arithmetic::exp),
    pure("$floor", Form::Exactly(1), rounding::floor),
    pure("$ln", Form::Exactly(1), arithmetic::ln),
    pure("$log", Form::Exactly(2), arithmetic::log),
    pure("$log10", Form::Exactly(1), arithmetic::log10),
    pure("$mod", Form::Exactly(2), arithmetic::modulo),
    pure("$multiply", Form::Any, arithmetic::multiply),
    pure("$pow", Form::Exactly(2), arithmetic::pow),
    lazy("$rand", Form::Own(arithmetic::parse_rand), arithmetic::rand),
    pure("$round", Form::Between(1, 2), rounding::round),
    pure("$sqrt", Form::Exactly(1), arithmetic::sqrt),
    pure("$subtract", Form::Exactly(2), arithmetic::subtract),
    pure("$trunc", Form::Between(1, 2), rounding::trunc),
    // Angles.
    pure("$acos", Form::Exactly(1), angles::acos),
    pure("$acosh", Form::Exactly(1), angles::acosh),
    pure("$asin", Form::Exactly(1), angles::asin),
    pure("$asinh", Form::Exactly(1), angles::asinh),
    pure("$atan", Form::Exactly(1), angles::atan),
    pure("$atan2", Form::Exactly(2), angles::atan2),
    pure("$atanh", Form::Exactly(1), angles::atanh),
    pure("$cos", Form::Exactly(1), angles::cos),
    pure("$cosh", Form::Exactly(1), angles::cosh),
    pure("$degreesToRadians", Form::Exactly(1), angles::to_radians),
    pure("$radiansToDegrees", Form::Exactly(1), angles::to_degrees),
    pure("$sin", Form::Exactly(1), angles::sin),
    pure("$sinh", Form::Exactly(1), angles::sinh),
    pure("$tan", Form::Exactly(1), angles::tan),
    pure("$tanh", Form::Exactly(1), angles::tanh),
    // Comparisons and conditions.
    pure("$cmp", Form::Exactly(2), compare::cmp),
    pure("$eq", Form::Exactly(2), compare::eq),
    pure("$ne", Form::Exactly(2), compare::ne),
    pure("$gt", Form::Exactly(2), compare::gt),
    pure("$gte", Form::Exactly(2), compare::gte),
    pure("$lt", Form::Exactly(2), compare::lt),
    pure("$lte", Form::Exactly(2), compare::lte),
    pure("$and", Form::Own(logic::parse_all), logic::and),
    pure("$or", Form::Own(logic::parse_all), logic::or),
    pure("$not", Form::Exactly(1), logic::not),
    pure("$cond", Form::Own(logic::parse_cond), logic::cond),
    pure("$ifNull", Form::AtLeastTwo(1_257_300), logic::if_null),
    pure("$switch", Form::Own(logic::parse_switch), logic::switch),
    // Variables.
    lazy("$let", Form::Own(binding::parse_let), binding::evaluate_let),
    lazy("$map", Form::Own(binding::parse_map), binding::map),
    lazy("$filter", Form::Own(binding::parse_filter), binding::filter),
    lazy("$reduce", Form::Own(binding::parse_reduce), binding::reduce),
    lazy("$literal", Form::Own(objects::parse_literal), objects::literal),
    lazy("$const", Form::Own(objects::parse_literal), objects::literal),
    lazy("$meta", Form::Own(objects::parse_meta), objects::literal),
    // Arrays.
    pure("$arrayElemAt", Form::Exactly(2), arrays::element_at),
    pure("$arrayToObject", Form::Exactly(1), objects::array_to_object),
    pure("$concatArrays", Form::Any, arrays::concat),
    pure("$first", Form::Exactly(1), arrays::first),
    pure("$last", Form::Exactly(1), arrays::last),
    lazy("$firstN", FIRST_N, arrays::first_n),
    lazy("$lastN", FIRST_N, arrays::last_n),
    lazy("$maxN", MAX_N, arrays::max_n),
    lazy("$minN", MAX_N, arrays::min_n),
    pure("$in", Form::Exactly(2), arrays::contains),
    pure("$indexOfArray", Form::Between(2, 4), arrays::index_of),
    pure("$isArray", Form::Exactly(1), arrays::is_array),
    pure("$objectToArray", Form::Exactly(1), objects::object_to_array),
    pure("$range", Form::Between(2, 3), arrays::range),
    pure("$reverseArray", Form::Exactly(1), arrays::reverse),
    pure("$size", Form::Exactly(1), arrays::size),
    pure("$slice", Form::Between(2, 3), arrays::slice),
    lazy("$sortArray", Form::Own(array_order::parse_sort), array_order::sort),
    lazy("$zip", Form::Own(array_order::parse_zip), array_order::zip),
    // Sets.
    pure("$allElementsTrue", Form::Exactly(1), sets::all_true),
    pure("$anyElementTrue", Form::Exactly(1), sets::any_true),
    pure("$setDifference", Form::Exactly(2), sets::difference),
    pure("$setEquals", Form::AtLeastTwo(17045), sets::equals),
    pure("$setIntersection", Form::Any, sets::intersection),
    pure("$setIsSubset", Form::Exactly(2), sets::is_subset),
    pure("$setUnion", Form::Any, sets::union),
    // Strings.
    pure("$concat", Form::Any, strings::concat),
    pure("$indexOfBytes", Form::Between(2, 4), strings::index_of_bytes),
    pure("$indexOfCP", Form::Between(2, 4), strings::index_of_characters),
    pure("$split", Form::Exactly(2), strings::split),
    pure("$strLenBytes", Form::Exactly(1), strings::length_in_bytes),
    pure("$strLenCP", Form::Exactly(1), strings::length_in_characters),
    pure("$strcasecmp", Form::Exactly(2), strings::compare_ignoring_case),
    pure("$substr", Form::Exactly(3), strings::part_by_bytes),
    pure("$substrBytes", Form::Exactly(3), strings::part_by_bytes),
    pure("$substrCP", Form::Exactly(3), strings::part_by_characters),
    pure("$toLower", Form::Exactly(1), strings::lower),
    pure("$toUpper", Form::Exactly(1), strings::upper),
    pure("$trim", TRIM, strings::trim),
    pure("$ltrim", TRIM, strings::trim),
    pure("$rtrim", TRIM, strings::trim),
    lazy("$replaceOne", REPLACE, strings::replace_one),
    lazy("$replaceAll", REPLACE, strings::replace_all),
    lazy("$regexMatch", PATTERN, pattern::is_match),
    lazy("$regexFind", PATTERN, pattern::find),
    lazy("$regexFindAll", PATTERN, pattern::find_all),
    // Types.
    pure(
        "$convert",
        Form::Named(&Named {
            fields: &[("input", Some(9)), ("to", Some(9)), ("onError", None), ("onNull", None)],
            not_an_object: 9,
            unknown: 9,
        }),
        convert::convert,
    ),
    pure("$toBool", Form::Single, convert::to_bool),
    pure("$toDate", Form::Single, convert::to_date),
    pure("$toDecimal", Form::Single, convert::to_decimal),
    pure("$toDouble", Form::Single, convert::to_double),
    pure("$toInt", Form::Single, convert::to_int),
    pure("$toLong", Form::Single, convert::to_long),
    pure("$toObjectId", Form::Single, convert::to_object_id),
    pure("$toString", Form::Single, convert::to_string),
    pure("$type", Form::Exactly(1), convert::type_of),
    pure("$isNumber", Form::Exactly(1), convert::is_number),
    // Dates.
    pure("$year", PART, dates::year),
    pure("$month", PART, dates::month),
    pure("$dayOfMonth", PART, dates::day_of_month),
    pure("$hour", PART, dates::hour),
    pure("$minute", PART, dates::minute),
    pure("$second", PART, dates::second),
    pure("$millisecond", PART, dates::millisecond),
    pure("$dayOfWeek", PART, dates::day_of_week),
    pure("$dayOfYear", PART, dates::day_of_year),
    pure("$week", PART, dates::week),
    pure("$isoWeek", PART, dates::iso_week),
    pure("$isoWeekYear", PART, dates::iso_week_year),
    pure("$isoDayOfWeek", PART, dates::iso_day_of_week),
    pure(
        "$dateToParts",
        Form::Named(&Named {
            fields: &[("date", Some(40522)), ("timezone", None), ("iso8601", None)],
            not_an_object: 40524,
            unknown: 40520,
        }),
        dates::to_parts,
    ),
    pure("$dateFromParts", Form::Own(dates::parse_from_parts), dates::from_parts),
    pure(
        "$dateToString",
        Form::Named(&Named {
            fields: &[
                ("date", Some(18628)),
                ("format", None),
                ("timezone", None),
                ("onNull", None),
            ],
            not_an_object: 18629,
            unknown: 18534,
        }),
        date_text::to_string,
    ),
    pure(
        "$dateFromString",
        Form::Named(&Named {
            fields: &[
                ("dateString", Some(40542)),
                ("format", None),
                ("timezone", None),
                ("onNull", None),
                ("onError", None),
            ],
            not_an_object: 40540,
            unknown: 40541,
        }),
        date_text::from_string,
    ),
    pure("$dateAdd", DATE_ADD, date_arithmetic::add),
    pure("$dateSubtract", DATE_ADD, date_arithmetic::subtract),
    pure(
        "$dateDiff",
        Form::Named(&Named {
            fields: &[
                ("startDate", Some(5_166_303)),
                ("endDate", Some(5_166_304)),
                ("unit", Some(5_166_305)),
                ("timezone", None),
                ("startOfWeek", None),
            ],
            not_an_object: 5_166_301,
            unknown: 5_166_302,
        }),
        date_arithmetic::difference,
    ),
    pure(
        "$dateTrunc",
        Form::Named(&Named {
            fields: &[
                ("date", Some(5_439_009)),
                ("unit", Some(5_439_010)),
                ("binSize", None),
                ("timezone", None),
                ("startOfWeek", None),
            ],
            not_an_object: 5_439_007,
            unknown: 5_439_008,
        }),
        date_arithmetic::truncate,
    ),
    pure("$tsSecond", Form::Exactly(1), dates::timestamp_second),
    pure("$tsIncrement", Form::Exactly(1), dates::timestamp_increment),
    // Objects.
    lazy("$getField", Form::Own(objects::parse_get_field), objects::get_field),
    lazy("$setField", Form::Own(objects::parse_set_field), objects::set_field),
    lazy("$unsetField", Form::Own(objects::parse_unset_field), objects::set_field),
    pure("$mergeObjects", Form::Any, objects::merge),
    pure("$binarySize", Form::Exactly(1), objects::binary_size),
    pure("$bsonSize", Form::Exactly(1), objects::bson_size),
    // Summaries of arguments, or of the elements of the only one.
    pure("$sum", Form::Any, summary::evaluate),
    pure("$avg", Form::Any, summary::evaluate),
    pure("$max", Form::Any, summary::evaluate),
    pure("$min", Form::Any, summary::evaluate),
    pure("$stdDevPop", Form::Any, summary::evaluate),
    pure("$stdDevSamp", Form::Any, summary::evaluate),
];
