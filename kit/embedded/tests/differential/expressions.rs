//! Random expressions.

use bson::{Bson, DateTime, Document, doc};

use crate::generator::Generator;

impl Generator {
    fn set_operand(&mut self) -> Bson {
        match self.once_in(2) {
            true => {
                let values: Vec<_> = (0..self.below(4)).map(|_| self.scalar()).collect();
                doc! { "$literal": values }.into()
            }
            false => format!("${}", self.path()).into(),
        }
    }

    pub(crate) fn expression(&mut self, depth: usize) -> Bson {
        if depth == 0 || self.once_in(3) {
            return match self.below(4) {
                0 => doc! { "$literal": self.value(1) }.into(),
                1 => self.number(),
                2 if self.variables => (*self.pick(&["$$v", "$$v.b"])).into(),
                _ => format!("${}", self.path()).into(),
            };
        }
        let next = |generator: &mut Self| generator.expression(depth - 1);
        let one = [
            "$abs",
            "$ceil",
            "$floor",
            "$not",
            "$type",
            "$isArray",
            "$isNumber",
            "$size",
            "$toString",
            "$toInt",
            "$toLong",
            "$toDouble",
            "$toBool",
            "$strLenCP",
            "$toUpper",
            "$toLower",
            "$first",
            "$last",
            "$reverseArray",
            "$objectToArray",
            "$trunc",
            "$round",
            "$year",
            "$month",
            "$dayOfWeek",
            "$isoWeek",
            "$millisecond",
            "$toDate",
            "$toDecimal",
            "$strLenBytes",
            "$sqrt",
            "$allElementsTrue",
            "$anyElementTrue",
            "$arrayToObject",
            "$bsonSize",
            "$tsSecond",
            "$max",
            "$min",
            "$sum",
            "$avg",
            "$stdDevPop",
        ];
        let two = [
            "$subtract",
            "$divide",
            "$mod",
            "$eq",
            "$ne",
            "$gt",
            "$gte",
            "$lt",
            "$lte",
            "$cmp",
            "$arrayElemAt",
            "$in",
            "$split",
            "$strcasecmp",
            "$setIsSubset",
            "$slice",
            "$indexOfArray",
            "$indexOfCP",
            "$indexOfBytes",
            "$range",
            "$round",
            "$trunc",
        ];
        let many = [
            "$add",
            "$multiply",
            "$and",
            "$or",
            "$concat",
            "$concatArrays",
            "$ifNull",
            "$mergeObjects",
            "$max",
            "$min",
            "$sum",
            "$avg",
            "$setEquals",
        ];
        match self.below(14) {
            10 => self.date_expression(depth).into(),
            11 => self.text_expression(depth).into(),
            12 | 13 => self.named_expression(depth).into(),
            // A set operator returns its elements in any order.
            9 => {
                let set = *self.pick(&["$setUnion", "$setIntersection", "$setDifference"]);
                // Operands with constants are evaluated in any order, so no constant here is null
                // or a non-array.
                let set = doc! { set: [self.set_operand(), self.set_operand()] };
                doc! { "$sortArray": { "input": set, "sortBy": 1 } }.into()
            }
            0 | 1 => {
                let operand = next(self);
                // An array would be parsed as a list of arguments.
                doc! { *self.pick(&one): [operand] }.into()
            }
            2 | 3 => doc! { *self.pick(&two): [next(self), next(self)] }.into(),
            4 | 5 => {
                let operands: Vec<_> = (0..2 + self.below(2)).map(|_| next(self)).collect();
                doc! { *self.pick(&many): operands }.into()
            }
            6 => doc! { "$cond": [next(self), next(self), next(self)] }.into(),
            7 => doc! { "$map": { "input": next(self), "as": "x", "in": { "$add": ["$$x", 1] } } }.into(),
            _ => doc! { "$filter": { "input": next(self), "as": "x", "cond": { "$gt": ["$$x", next(self)] } } }.into(),
        }
    }

    fn date_expression(&mut self, depth: usize) -> Document {
        let unit = *self.pick(&["year", "quarter", "month", "week", "day", "hour", "millisecond"]);
        let date = self.date(depth);
        match self.below(7) {
            0 => {
                let format = *self.pick(&["%Y-%m-%d", "%H:%M:%S.%L%z", "%j %u %U %V %G", "%%"]);
                doc! { "$dateToString": { "date": date, "format": format } }
            }
            1 => doc! { "$dateToString": { "date": date, "onNull": self.number() } },
            2 => {
                let amount = self.small();
                // Before 1970, a server rounds fractions of a second differently.
                let date = DateTime::from_millis(i64::from(self.few(9)) * 98_765_432_100);
                let operator = *self.pick(&["$dateAdd", "$dateSubtract"]);
                doc! { operator: { "startDate": date, "unit": unit, "amount": amount } }
            }
            3 => doc! { "$dateDiff": { "startDate": date, "endDate": self.date(0), "unit": unit } },
            4 => doc! { "$dateTrunc": { "date": date, "unit": unit, "binSize": 1 + self.few(3) } },
            5 => doc! { "$dateToParts": { "date": date, "iso8601": self.once_in(2) } },
            _ => {
                let (month, day) = (self.small(), self.small());
                doc! { "$dateFromParts": { "year": 2000, "month": month, "day": day } }
            }
        }
    }

    fn date(&mut self, depth: usize) -> Bson {
        match self.below(3) {
            0 => self.expression(depth.saturating_sub(1)),
            1 => doc! { "$toDate": { "$literal": i64::from(self.small()) * 7_654_321_000 } }.into(),
            _ => DateTime::from_millis(i64::from(self.small()) * 98_765_432_100).into(),
        }
    }

    fn text(&mut self, depth: usize) -> Bson {
        match self.below(4) {
            0 => self.expression(depth.saturating_sub(1)),
            1 => doc! { "$toString": self.expression(depth.saturating_sub(1)) }.into(),
            _ => (*self.pick(&["", "x", "xyx", " Abc ", "z9", "a.b", "äöü", "Straße"])).into(),
        }
    }

    fn text_expression(&mut self, depth: usize) -> Document {
        let text = self.text(depth);
        match self.below(9) {
            0 => {
                let operator = *self.pick(&["$substrCP", "$substrBytes"]);
                doc! { operator: [text, self.few(4), self.small()] }
            }
            1 => {
                doc! { *self.pick(&["$trim", "$ltrim", "$rtrim"]): { "input": text } }
            }
            2 => {
                doc! { *self.pick(&["$trim", "$ltrim", "$rtrim"]): { "input": text, "chars": "xA " } }
            }
            3 => {
                let operator = *self.pick(&["$replaceOne", "$replaceAll"]);
                doc! { operator: { "input": text, "find": self.text(0), "replacement": self.text(0) } }
            }
            4 => {
                let operator = *self.pick(&["$regexMatch", "$regexFind", "$regexFindAll"]);
                let pattern = *self.pick(&["^x", "b", "(C)$", ".", "[a-z]+(9)?"]);
                doc! { operator: { "input": text, "regex": pattern, "options": "i" } }
            }
            5 => doc! { "$concat": [text, self.text(0), self.text(0)] },
            6 => doc! { "$split": [text, *self.pick(&["x", ".", "b"])] },
            7 => doc! { *self.pick(&["$toUpper", "$toLower", "$strLenCP", "$strLenBytes"]): text },
            _ => doc! { "$strcasecmp": [text, self.text(0)] },
        }
    }

    fn named_expression(&mut self, depth: usize) -> Document {
        let next = |generator: &mut Self| generator.expression(depth - 1);
        match self.below(12) {
            0 => doc! { "$reduce": { "input": next(self), "initialValue": next(self),
            "in": { "$add": ["$$value", "$$this"] } } },
            1 => doc! { "$zip": { "inputs": [next(self), next(self)], "useLongestLength": true } },
            2 => doc! { "$zip": { "inputs": [next(self), next(self)] } },
            3 => {
                let name = *self.pick(&["$firstN", "$lastN", "$maxN", "$minN"]);
                doc! { name: { "input": next(self), "n": 1 + self.few(3) } }
            }
            4 => doc! { "$getField": { "field": self.field(), "input": next(self) } },
            5 => {
                doc! { "$setField": { "field": self.field(), "input": next(self), "value": next(self) } }
            }
            6 => doc! { "$unsetField": { "field": self.field(), "input": next(self) } },
            7 => doc! { "$switch": { "branches": [
                { "case": next(self), "then": next(self) }, { "case": next(self), "then": 2 },
            ], "default": next(self) } },
            8 => {
                doc! { "$let": { "vars": { "x": next(self) }, "in": { "$ifNull": ["$$x", next(self)] } } }
            }
            9 => {
                let to =
                    *self.pick(&["int", "long", "double", "string", "bool", "date", "decimal"]);
                doc! { "$convert": { "input": next(self), "to": to, "onError": "no", "onNull": "null" } }
            }
            10 => {
                let by = self.direction();
                doc! { "$sortArray": { "input": next(self), "sortBy": { self.field(): by, "a": 1 } } }
            }
            _ => doc! { "$slice": [next(self), self.small(), 1 + self.few(3)] },
        }
    }
}
