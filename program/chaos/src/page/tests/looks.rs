//! Checks of a page on every screen: it is readable and complete, and loads nothing.

use std::path::Path;

use super::browser::Browser;

const PHONE: (u32, u32) = (360, 740);
const BETWEEN: (u32, u32) = (740, 900);
const DESK: (u32, u32) = (1280, 900);

/// Checks a page on a phone and on a desktop, with light and dark colours.
pub(crate) fn look_at(browser: &Browser, file: &Path) {
    let wrong = wrong(browser, file);
    assert!(wrong.is_empty(), "{}:\n{}", file.display(), wrong.join("\n"));
}

/// Returns the defects of a page.
pub(crate) fn wrong(browser: &Browser, file: &Path) -> Vec<String> {
    browser.emulate(DESK, "light");
    let _ = browser.requests();
    browser.show(file);
    let mut wrong = Vec::new();
    let screens =
        [(DESK, "light"), (DESK, "dark"), (BETWEEN, "light"), (PHONE, "light"), (PHONE, "dark")];
    for (size, scheme) in screens {
        browser.emulate(size, scheme);
        // Closed details are checked, too.
        let found = browser.run(&format!("{OPEN}{LOOK}"));
        let found = found.as_array().expect("a list").iter();
        wrong.extend(found.map(|what| format!("{size:?}, {scheme}: {what}")));
    }
    wrong.extend(browser.complaints());
    let own = format!("file://{}", file.display());
    let others = browser.requests().into_iter().filter(|it| *it != own && it != "data:,");
    wrong.extend(others.map(|address| format!("it loads {address}")));
    wrong
}

const OPEN: &str = "for (const it of document.querySelectorAll('details')) it.open = true;";

/// Returns a list of defects.
const LOOK: &str = r#"
const wrong = [];
const say = (what, element) =>
    wrong.push(what + ': ' + (element.textContent || element.outerHTML).trim().slice(0, 60));
// A table's caption, and its head where there are cards, are for screen readers only.
const labelled = new Set([...document.querySelectorAll('caption, thead')]
    .filter((it) => getComputedStyle(it).clipPath !== 'none'));
const isShown = (element) =>
    !labelled.has(element.closest('caption, thead')) && element.checkVisibility();

// Nothing is wider than the screen. (A phone's innerWidth grows with the page.)
const screenWidth = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > screenWidth) wrong.push('the page is wider than the screen');
for (const element of document.querySelectorAll('main *:not(svg *)')) {
    const box = element.getBoundingClientRect();
    if ((box.right > screenWidth + .5 || box.left < -.5) && isShown(element)) say('beyond the edge', element);
}

// Text in images is within them and does not overlap.
for (const picture of document.querySelectorAll('.plot > svg')) {
    const frame = picture.getBoundingClientRect();
    const boxes = [];
    for (const text of picture.querySelectorAll('text')) {
        if (!isShown(text)) continue;
        const box = text.getBoundingClientRect();
        if (box.left < frame.left - .5 || box.right > frame.right + .5 ||
            box.top < frame.top - 1 || box.bottom > frame.bottom + 1) say('outside of its picture', text);
        for (const other of boxes)
            if (box.left < other.right && other.left < box.right &&
                box.top + 2 < other.bottom && other.top + 2 < box.bottom) say('over another', text);
        boxes.push(box);
    }
}

// Text has enough contrast.
const parts = (color) => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
};
const over = (top, under) => {
    const mix = (x, y) => x * top.a + y * (1 - top.a);
    return { r: mix(top.r, under.r), g: mix(top.g, under.g), b: mix(top.b, under.b), a: 1 };
};
const paper = matchMedia('(prefers-color-scheme: dark)').matches ? 0 : 255;
const known = new Map([[null, { r: paper, g: paper, b: paper, a: 1 }]]);
const behind = (element) => {
    if (!known.has(element)) {
        const own = parts(getComputedStyle(element).backgroundColor);
        known.set(element, over(own, behind(element.parentElement)));
    }
    return known.get(element);
};
const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((it) => it / 255)
        .map((it) => it <= .04045 ? it / 12.92 : ((it + .055) / 1.055) ** 2.4);
    return .2126 * x + .7152 * y + .0722 * z;
};
const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
let seen = 0;
while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (element.tagName === 'title' || !texts.currentNode.data.trim() || !isShown(element)) continue;
    seen += 1;
    const style = getComputedStyle(element);
    const under = behind(element);
    const ink = over(parts(element.closest('svg') ? style.fill : style.color), under);
    const [bright, dim] = [light(ink), light(under)].sort((x, y) => y - x);
    const contrast = (bright + .05) / (dim + .05);
    if (contrast < 4.5) say('contrast ' + contrast.toFixed(2), element);
}
if (seen < 20) wrong.push('hardly any text: ' + seen);

// Nothing is run.
if (document.scripts.length) wrong.push('it has a script');
if (document.querySelector('[src], main [href], [style]')) wrong.push('it refers to something');

// It is accessible to screen readers.
let level = 0;
for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) say('a heading is left out before', heading);
    level = next;
}
if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
for (const picture of document.querySelectorAll('svg'))
    if (!picture.closest('[aria-hidden=true]') &&
        !(picture.closest('[role=img]')?.getAttribute('aria-label'))) say('a picture without words', picture);
for (const head of document.querySelectorAll('th')) if (!head.scope) say('a head of nothing', head);
const ids = [...document.querySelectorAll('[id]')].map((it) => it.id);
if (new Set(ids).size !== ids.length) wrong.push('an id twice');
for (const it of document.querySelectorAll('[aria-labelledby]'))
    if (!ids.includes(it.getAttribute('aria-labelledby'))) say('labelled by nothing', it);
return wrong;
"#;
