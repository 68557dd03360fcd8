//! Table of operators: argument form and function.

use bson::Bson;

use super::{
    arithmetic, array_order, arrays, binding, compare, convert, date_arithmetic, date_text, dates,
    logic,
    node::{Arguments, ExpressionNode, Value},
    objects,
    parse::ExpressionParser,
    pattern, rounding, sets, simple_accumulator, strings, trigonometry,
};
use crate::Fault;

/// An aggregation operator.
#[derive(Debug)]
pub(super) struct AggregationOperator {
    /// Name with `$`.
    pub(super) name: &'static str,
    pub(super) form: ArgumentForm,
    pub(super) function: fn(&Arguments<'_>) -> Result<Value, Fault>,
    /// Folds constant arguments while parsing.
    pub(super) folds: bool,
}

/// Form of an operator's arguments.
#[derive(Debug)]
pub(super) enum ArgumentForm {
    Exactly(usize),
    Between(usize, usize),
    /// Two or more, else this error code.
    AtLeastTwo(i32),
    /// One argument. Conversions have their own error.
    Single,
    Any,
    Named(&'static NamedArguments),
    /// The operator parses its arguments itself.
    Own(
        fn(
            &mut ExpressionParser<'_>,
            &'static AggregationOperator,
            &Bson,
        ) -> Result<ExpressionNode, Fault>,
    ),
}

/// Named arguments with their error codes.
#[derive(Debug)]
pub(super) struct NamedArguments {
    /// Names, each with the error code if it is missing. `None` for optional arguments.
    pub(super) fields: &'static [(&'static str, Option<i32>)],
    pub(super) not_an_object: i32,
    pub(super) unknown: i32,
}

/// Returns the operator of this name.
pub(super) fn find(name: &str) -> Option<&'static AggregationOperator> {
    OPERATORS.iter().find(|it| it.name == name)
}

type Function = fn(&Arguments<'_>) -> Result<Value, Fault>;

const fn pure(name: &'static str, form: ArgumentForm, function: Function) -> AggregationOperator {
    AggregationOperator { name, form, function, folds: true }
}

const fn lazy(name: &'static str, form: ArgumentForm, function: Function) -> AggregationOperator {
    AggregationOperator { name, form, function, folds: false }
}

const PART: ArgumentForm = ArgumentForm::Own(dates::parse_part);
const PATTERN: ArgumentForm = ArgumentForm::Own(pattern::parse);
const FIRST_N: ArgumentForm = ArgumentForm::Named(&NamedArguments {
    fields: &[("n", Some(5_787_906)), ("input", Some(5_787_907))],
    not_an_object: 5_787_801,
    unknown: 5_787_901,
});
const MAX_N: ArgumentForm = ArgumentForm::Named(&NamedArguments {
    fields: &[("n", Some(5_787_906)), ("input", Some(5_787_907))],
    not_an_object: 5_787_900,
    unknown: 5_787_901,
});
const TRIM: ArgumentForm = ArgumentForm::Named(&NamedArguments {
    fields: &[("input", Some(50695)), ("chars", None)],
    not_an_object: 50696,
    unknown: 50694,
});
const REPLACE: ArgumentForm = ArgumentForm::Named(&NamedArguments {
    fields: &[("input", Some(51749)), ("find", Some(51748)), ("replacement", Some(51747))],
    not_an_object: 51751,
    unknown: 51750,
});
const DATE_ADD: ArgumentForm = ArgumentForm::Named(&NamedArguments {
    fields: &[
        ("startDate", Some(5_166_402)),
        ("unit", Some(5_166_402)),
        ("amount", Some(5_166_402)),
        ("timezone", None),
    ],
    not_an_object: 5_166_400,
    unknown: 5_166_401,
});

static OPERATORS: &[AggregationOperator] = &[
    // Numbers.
    pure("$abs", ArgumentForm::Exactly(1), arithmetic::abs),
    pure("$add", ArgumentForm::Any, arithmetic::add),
    pure("$ceil", ArgumentForm::Exactly(1), rounding::ceil),
    pure("$divide", ArgumentForm::Exactly(2), arithmetic::divide),
    pure("$exp", ArgumentForm::Exactly(1), arithmetic::exp),
    pure("$floor", ArgumentForm::Exactly(1), rounding::floor),
    pure("$ln", ArgumentForm::Exactly(1), arithmetic::ln),
    pure("$log", ArgumentForm::Exactly(2), arithmetic::log),
    pure("$log10", ArgumentForm::Exactly(1), arithmetic::log10),
    pure("$mod", ArgumentForm::Exactly(2), arithmetic::modulo),
    pure("$multiply", ArgumentForm::Any, arithmetic::multiply),
    pure("$pow", ArgumentForm::Exactly(2), arithmetic::pow),
    lazy("$rand", ArgumentForm::Own(arithmetic::parse_rand), arithmetic::rand),
    pure("$round", ArgumentForm::Between(1, 2), rounding::round),
    pure("$sqrt", ArgumentForm::Exactly(1), arithmetic::sqrt),
    pure("$subtract", ArgumentForm::Exactly(2), arithmetic::subtract),
    pure("$trunc", ArgumentForm::Between(1, 2), rounding::trunc),
    // Angles.
    pure("$acos", ArgumentForm::Exactly(1), trigonometry::acos),
    pure("$acosh", ArgumentForm::Exactly(1), trigonometry::acosh),
    pure("$asin", ArgumentForm::Exactly(1), trigonometry::asin),
    pure("$asinh", ArgumentForm::Exactly(1), trigonometry::asinh),
    pure("$atan", ArgumentForm::Exactly(1), trigonometry::atan),
    pure("$atan2", ArgumentForm::Exactly(2), trigonometry::atan2),
    pure("$atanh", ArgumentForm::Exactly(1), trigonometry::atanh),
    pure("$cos", ArgumentForm::Exactly(1), trigonometry::cos),
    pure("$cosh", ArgumentForm::Exactly(1), trigonometry::cosh),
    pure("$degreesToRadians", ArgumentForm::Exactly(1), trigonometry::to_radians),
    pure("$radiansToDegrees", ArgumentForm::Exactly(1), trigonometry::to_degrees),
    pure("$sin", ArgumentForm::Exactly(1), trigonometry::sin),
    pure("$sinh", ArgumentForm::Exactly(1), trigonometry::sinh),
    pure("$tan", ArgumentForm::Exactly(1), trigonometry::tan),
    pure("$tanh", ArgumentForm::Exactly(1), trigonometry::tanh),
    // Comparisons and conditions.
    pure("$cmp", ArgumentForm::Exactly(2), compare::cmp),
    pure("$eq", ArgumentForm::Exactly(2), compare::eq),
    pure("$ne", ArgumentForm::Exactly(2), compare::ne),
    pure("$gt", ArgumentForm::Exactly(2), compare::gt),
    pure("$gte", ArgumentForm::Exactly(2), compare::gte),
    pure("$lt", ArgumentForm::Exactly(2), compare::lt),
    pure("$lte", ArgumentForm::Exactly(2), compare::lte),
    pure("$and", ArgumentForm::Own(logic::parse_all), logic::and),
    pure("$or", ArgumentForm::Own(logic::parse_all), logic::or),
    pure("$not", ArgumentForm::Exactly(1), logic::not),
    pure("$cond", ArgumentForm::Own(logic::parse_cond), logic::cond),
    pure("$ifNull", ArgumentForm::AtLeastTwo(1_257_300), logic::if_null),
    pure("$switch", ArgumentForm::Own(logic::parse_switch), logic::switch),
    // Variables.
    lazy("$let", ArgumentForm::Own(binding::parse_let), binding::evaluate_let),
    lazy("$map", ArgumentForm::Own(binding::parse_map), binding::map),
    lazy("$filter", ArgumentForm::Own(binding::parse_filter), binding::filter),
    lazy("$reduce", ArgumentForm::Own(binding::parse_reduce), binding::reduce),
    lazy("$literal", ArgumentForm::Own(objects::parse_literal), objects::literal),
    lazy("$const", ArgumentForm::Own(objects::parse_literal), objects::literal),
    lazy("$meta", ArgumentForm::Own(objects::parse_meta), objects::literal),
    // Arrays.
    pure("$arrayElemAt", ArgumentForm::Exactly(2), arrays::element_at),
    pure("$arrayToObject", ArgumentForm::Exactly(1), objects::array_to_object),
    pure("$concatArrays", ArgumentForm::Any, arrays::concat),
    pure("$first", ArgumentForm::Exactly(1), arrays::first),
    pure("$last", ArgumentForm::Exactly(1), arrays::last),
    lazy("$firstN", FIRST_N, arrays::first_n),
    lazy("$lastN", FIRST_N, arrays::last_n),
    lazy("$maxN", MAX_N, arrays::max_n),
    lazy("$minN", MAX_N, arrays::min_n),
    pure("$in", ArgumentForm::Exactly(2), arrays::contains),
    pure("$indexOfArray", ArgumentForm::Between(2, 4), arrays::index_of),
    pure("$isArray", ArgumentForm::Exactly(1), arrays::is_array),
    pure("$objectToArray", ArgumentForm::Exactly(1), objects::object_to_array),
    pure("$range", ArgumentForm::Between(2, 3), arrays::range),
    pure("$reverseArray", ArgumentForm::Exactly(1), arrays::reverse),
    pure("$size", ArgumentForm::Exactly(1), arrays::size),
    pure("$slice", ArgumentForm::Between(2, 3), arrays::slice),
    lazy("$sortArray", ArgumentForm::Own(array_order::parse_sort), array_order::sort),
    lazy("$zip", ArgumentForm::Own(array_order::parse_zip), array_order::zip),
    // Sets.
    pure("$allElementsTrue", ArgumentForm::Exactly(1), sets::all_true),
    pure("$anyElementTrue", ArgumentForm::Exactly(1), sets::any_true),
    pure("$setDifference", ArgumentForm::Exactly(2), sets::difference),
    pure("$setEquals", ArgumentForm::AtLeastTwo(17045), sets::equals),
    pure("$setIntersection", ArgumentForm::Any, sets::intersection),
    pure("$setIsSubset", ArgumentForm::Exactly(2), sets::is_subset),
    pure("$setUnion", ArgumentForm::Any, sets::union),
    // Strings.
    pure("$concat", ArgumentForm::Any, strings::concat),
    pure("$indexOfBytes", ArgumentForm::Between(2, 4), strings::index_of_bytes),
    pure("$indexOfCP", ArgumentForm::Between(2, 4), strings::index_of_characters),
    pure("$split", ArgumentForm::Exactly(2), strings::split),
    pure("$strLenBytes", ArgumentForm::Exactly(1), strings::length_in_bytes),
    pure("$strLenCP", ArgumentForm::Exactly(1), strings::length_in_characters),
    pure("$strcasecmp", ArgumentForm::Exactly(2), strings::compare_ignoring_case),
    pure("$substr", ArgumentForm::Exactly(3), strings::part_by_bytes),
    pure("$substrBytes", ArgumentForm::Exactly(3), strings::part_by_bytes),
    pure("$substrCP", ArgumentForm::Exactly(3), strings::part_by_characters),
    pure("$toLower", ArgumentForm::Exactly(1), strings::lower),
    pure("$toUpper", ArgumentForm::Exactly(1), strings::upper),
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
        ArgumentForm::Named(&NamedArguments {
            fields: &[("input", Some(9)), ("to", Some(9)), ("onError", None), ("onNull", None)],
            not_an_object: 9,
            unknown: 9,
        }),
        convert::convert,
    ),
    pure("$toBool", ArgumentForm::Single, convert::to_bool),
    pure("$toDate", ArgumentForm::Single, convert::to_date),
    pure("$toDecimal", ArgumentForm::Single, convert::to_decimal),
    pure("$toDouble", ArgumentForm::Single, convert::to_double),
    pure("$toInt", ArgumentForm::Single, convert::to_int),
    pure("$toLong", ArgumentForm::Single, convert::to_long),
    pure("$toObjectId", ArgumentForm::Single, convert::to_object_id),
    pure("$toString", ArgumentForm::Single, convert::to_string),
    pure("$type", ArgumentForm::Exactly(1), convert::type_of),
    pure("$isNumber", ArgumentForm::Exactly(1), convert::is_number),
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
        ArgumentForm::Named(&NamedArguments {
            fields: &[("date", Some(40522)), ("timezone", None), ("iso8601", None)],
            not_an_object: 40524,
            unknown: 40520,
        }),
        dates::to_parts,
    ),
    pure("$dateFromParts", ArgumentForm::Own(dates::parse_from_parts), dates::from_parts),
    pure(
        "$dateToString",
        ArgumentForm::Named(&NamedArguments {
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
        ArgumentForm::Named(&NamedArguments {
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
        ArgumentForm::Named(&NamedArguments {
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
        ArgumentForm::Named(&NamedArguments {
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
    pure("$tsSecond", ArgumentForm::Exactly(1), dates::timestamp_second),
    pure("$tsIncrement", ArgumentForm::Exactly(1), dates::timestamp_increment),
    // Objects.
    lazy("$getField", ArgumentForm::Own(objects::parse_get_field), objects::get_field),
    lazy("$setField", ArgumentForm::Own(objects::parse_set_field), objects::set_field),
    lazy("$unsetField", ArgumentForm::Own(objects::parse_unset_field), objects::set_field),
    pure("$mergeObjects", ArgumentForm::Any, objects::merge),
    pure("$binarySize", ArgumentForm::Exactly(1), objects::binary_size),
    pure("$bsonSize", ArgumentForm::Exactly(1), objects::bson_size),
    // Summaries of arguments, or of the elements of the only one.
    pure("$sum", ArgumentForm::Any, simple_accumulator::evaluate),
    pure("$avg", ArgumentForm::Any, simple_accumulator::evaluate),
    pure("$max", ArgumentForm::Any, simple_accumulator::evaluate),
    pure("$min", ArgumentForm::Any, simple_accumulator::evaluate),
    pure("$stdDevPop", ArgumentForm::Any, simple_accumulator::evaluate),
    pure("$stdDevSamp", ArgumentForm::Any, simple_accumulator::evaluate),
];
