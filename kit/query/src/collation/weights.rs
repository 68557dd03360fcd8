//! Weights of characters: letters first, then accents, then case.

/// Weight of a character, or of a part of it. Zero is ignored at a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    pub(super) letter: u32,
    pub(super) accent: u32,
    pub(super) variant: u32,
}

const SMALL: u32 = 0;
pub(super) const CAPITAL: u32 = 1;
const RAISED: u32 = 2;
const PLAIN: u32 = 1;

/// Characters before the digits, in collation order. A no-break space weighs the same as a space.
const SIGNS: &str = "\t\n\u{b}\u{c}\r\u{85}\u{2028}\u{2029} _-–—,;:!¡?¿.·'‘’\"“”«»()[]{}§¶@*/\\&#%`´^¯¨¸°©®⁄+±÷×<=>¬|¦~¤¢$£¥€";

/// Letters in collation order.
const LETTERS: &str = "abcdefghiıjklmnŋopqĸrstŧuvwxyzþŉ";

/// Combining accents in collation order.
const ACCENTS: &str = "\u{301}\u{300}\u{306}\u{302}\u{30c}\u{30a}\u{308}\u{30b}\u{303}\u{307}\u{327}\u{335}\u{328}\u{304}\u{b7}";

/// Marks a ligature, which weighs as two letters.
const JOINED: char = '\u{34f}';
/// Marks `ð`, which weighs as a `d`.
const ETH: char = '\u{33f}';

/// Decomposition of lower-case letters.
const MADE_OF: &str = "\
á a\u{301} à a\u{300} ă a\u{306} â a\u{302} å a\u{30a} ä a\u{308} ã a\u{303} ą a\u{328} ā a\u{304} \
ć c\u{301} ĉ c\u{302} č c\u{30c} ċ c\u{307} ç c\u{327} ď d\u{30c} đ d\u{335} ð d\u{33f} \
é e\u{301} è e\u{300} ĕ e\u{306} ê e\u{302} ě e\u{30c} ë e\u{308} ė e\u{307} ę e\u{328} ē e\u{304} \
ğ g\u{306} ĝ g\u{302} ġ g\u{307} ģ g\u{327} ĥ h\u{302} ħ h\u{335} \
í i\u{301} ì i\u{300} ĭ i\u{306} î i\u{302} ï i\u{308} ĩ i\u{303} į i\u{328} ī i\u{304} \
ĵ j\u{302} ķ k\u{327} ĺ l\u{301} ľ l\u{30c} ļ l\u{327} ł l\u{335} ŀ l\u{b7} \
ń n\u{301} ň n\u{30c} ñ n\u{303} ņ n\u{327} \
ó o\u{301} ò o\u{300} ŏ o\u{306} ô o\u{302} ö o\u{308} ő o\u{30b} õ o\u{303} ø o\u{335} ō o\u{304} \
ŕ r\u{301} ř r\u{30c} ŗ r\u{327} ś s\u{301} ŝ s\u{302} š s\u{30c} ş s\u{327} ť t\u{30c} ţ t\u{327} \
ú u\u{301} ù u\u{300} ŭ u\u{306} û u\u{302} ů u\u{30a} ü u\u{308} ű u\u{30b} ũ u\u{303} ų u\u{328} ū u\u{304} \
ŵ w\u{302} ý y\u{301} ŷ y\u{302} ÿ y\u{308} ź z\u{301} ž z\u{30c} ż z\u{307} \
æ a\u{34f}e œ o\u{34f}e ĳ i\u{34f}j ß s\u{34f}s";

const FIRST_NUMBER: u32 = 0x180;
const FIRST_DIGIT: u32 = 0x200;
const FIRST_LETTER: u32 = 0x300;
const FIRST_OTHER: u32 = 0x1000;

/// Returns the weights of a text. `numeric` is `true` for `numericOrdering`: a run of digits weighs
/// as its number.
pub(super) fn weights(text: &str, numeric: bool) -> Vec<Weight> {
    let mut weights = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if numeric && next.is_ascii_digit() {
            let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
            push_number_weights(&rest[..end], &mut weights);
            rest = &rest[end..];
        } else {
            push_weights(next, &mut weights);
            rest = &rest[next.len_utf8()..];
        }
    }
    weights
}

/// Orders numbers by length, then by digits.
fn push_number_weights(digits: &str, weights: &mut Vec<Weight>) {
    let digits = digits.trim_start_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let length = u32::try_from(digits.len()).unwrap_or(u32::MAX).min(0x7f);
    weights.push(plain(FIRST_NUMBER + length, SMALL));
    for digit in digits.chars() {
        weights.push(plain(FIRST_DIGIT + digit.to_digit(10).unwrap_or(0), SMALL));
    }
}

fn plain(letter: u32, variant: u32) -> Weight {
    Weight { letter, accent: PLAIN, variant }
}

fn push_weights(character: char, weights: &mut Vec<Weight>) {
    let mut raised = |text: &str| {
        weights.extend(text.chars().map(|it| plain(letter(it), RAISED)));
    };
    match character {
        '\u{a0}' => raised(" "),
        'ª' => raised("a"),
        'º' => raised("o"),
        '¹' => raised("1"),
        '²' => raised("2"),
        '³' => raised("3"),
        '¼' => raised("1⁄4"),
        '½' => raised("1⁄2"),
        '¾' => raised("3⁄4"),
        '…' => raised("..."),
        'µ' => raised("μ"),
        '\u{85}' | '\t'..='\r' => weights.push(plain(letter(character), SMALL)),
        // Other control characters and the soft hyphen are ignored.
        _ if character.is_control() || character == '\u{ad}' => {}
        'İ' => push_part_weights("i\u{307}", CAPITAL, weights),
        '\u{300}'..='\u{36f}' => weights.push(accent(character)),
        _ => push_letter_weights(character, weights),
    }
}

fn push_letter_weights(character: char, weights: &mut Vec<Weight>) {
    let mut lower = character.to_lowercase();
    let small = match (lower.next(), lower.next()) {
        (Some(small), None) => small,
        _ => character,
    };
    let variant = if small == character { SMALL } else { CAPITAL };
    let mut names = MADE_OF.split_ascii_whitespace();
    while let (Some(name), Some(parts)) = (names.next(), names.next()) {
        if name.chars().eq([small]) {
            return push_part_weights(parts, variant, weights);
        }
    }
    weights.push(plain(letter(small), variant));
}

fn push_part_weights(parts: &str, variant: u32, weights: &mut Vec<Weight>) {
    for (index, part) in parts.chars().enumerate() {
        let is_letter = index == 0 || part.is_ascii_alphabetic();
        weights.push(if is_letter { plain(letter(part), variant) } else { accent(part) });
    }
}

fn accent(mark: char) -> Weight {
    let known = ACCENTS.chars().position(|it| it == mark);
    let accent = match (mark, known) {
        (ETH, _) => 0x40,
        (JOINED, _) => 0x41,
        (_, Some(index)) => PLAIN + 1 + u32::try_from(index).unwrap_or(0),
        (other, None) => 0x50 + u32::from(other) % 0x80,
    };
    Weight { letter: 0, accent, variant: SMALL }
}

fn letter(character: char) -> u32 {
    let place = |list: &str| {
        let index = list.chars().position(|it| it == character)?;
        u32::try_from(index).ok()
    };
    if let Some(digit) = character.to_digit(10) {
        return FIRST_DIGIT + digit;
    }
    if let Some(index) = place(LETTERS) {
        return FIRST_LETTER + index;
    }
    match place(SIGNS) {
        Some(index) => 1 + index,
        None => FIRST_OTHER + u32::from(character),
    }
}
