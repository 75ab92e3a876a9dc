//! Colours and line styles of plots, for light and dark pages.

/// Mechanisms in the order in which they are shown, and their colours. The colours can be told apart on light and on
/// dark pages.
const MECHANISMS: [(&str, &str); 10] = [
    ("fork", "#e0524f"),
    ("fork_columns", "#f2994a"),
    ("physical", "#8e8e93"),
    ("rewired", "#b57edc"),
    ("scoot", "#c8a415"),
    ("vm_snapshot", "#1fa187"),
    ("mremap_cow", "#73b839"),
    ("frames", "#5aa9e6"),
    ("epochs", "#2f6fed"),
    ("auto", "#e255a1"),
];

/// A mechanism's index in [`MECHANISMS`]. Other names come last.
pub fn order(mechanism: &str) -> usize {
    MECHANISMS.iter().position(|(name, _)| *name == mechanism).unwrap_or(MECHANISMS.len())
}

/// Subjects other than mechanisms that several plots show, with their colours.
const SIDES: [(&str, &str); 9] = [
    ("no queries", "#00a5c8"),
    ("heap", "#f2994a"),
    ("heap, serializable", "#a3324a"),
    ("heap, repeatable read", "#f2994a"),
    ("heap, read committed", "#8c6d4f"),
    ("mirror", "#2f6fed"),
    ("mirror, no queries", "#e255a1"),
    ("DuckDB", "#c8a415"),
    ("Hyper", "#73b839"),
];

/// The colour of a mechanism or side. If the name is unknown, the part before its comma counts. Otherwise the colour
/// depends on the name's place in the plot.
pub fn color(name: &str, place: usize) -> &'static str {
    let known = |name: &str| MECHANISMS.iter().chain(&SIDES).find(|(known, _)| *known == name);
    let first = name.split_once(',').and_then(|(first, _)| known(first));
    known(name).or(first).unwrap_or(&MECHANISMS[place % MECHANISMS.len()]).1
}

/// The dash pattern of a line: forks are dashed, and variants that share a colour are dotted.
pub fn dash(name: &str) -> &'static str {
    match () {
        _ if is_variant(name) => " stroke-dasharray=\"2 3\"",
        _ if name.starts_with("fork") => " stroke-dasharray=\"6 3\"",
        _ => "",
    }
}

/// The opacity of a bar: variants that share a colour are paler.
pub fn shade(name: &str) -> &'static str {
    if is_variant(name) { " opacity=\"0.55\"" } else { "" }
}

/// Whether this is a configuration with SERIALIZABLE transactions and queries in the engine. A plot shows it beside the
/// same configuration at another isolation level, in the same colour.
fn is_variant(name: &str) -> bool {
    name.split_once(", ").is_some_and(|(of, level)| level == "serializable" && of != "heap")
}

/// Style sheet variables for the colours of plots. Each use of a variable follows a plain colour, for renderers that do
/// not support variables.
pub const COLORS: &str = ":root{color-scheme:light dark;--ink:#1d1d1f;--soft:#6e6e73;--line:#dddde2;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#eceef1;--soft:#a0a4ab;--line:#3a3d43;--paper:#16181c}}
";

pub const PLOT: &str = "svg text{fill:#1d1d1f;fill:var(--ink);font:12px system-ui,sans-serif}
svg .soft{fill:#6e6e73;fill:var(--soft)}svg .title{font-weight:600}
svg .grid{stroke:#dddde2;stroke:var(--line)}svg .paper{fill:#fff;fill:var(--paper)}
";

pub const PAGE: &str = "body{background:#fff;background:var(--paper);color:#1d1d1f;color:var(--ink);
font:15px/1.5 system-ui,sans-serif;max-width:1180px;
margin:2rem auto;padding:0 1rem}h1{font-size:1.6rem}h2{margin-top:3rem;font-size:1.25rem}h3{font-size:1rem}
.claim{border-left:3px solid var(--soft);padding-left:.8rem}.note{color:var(--soft);font-size:.9rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88rem}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line)}tr th:first-child{text-align:left}
.plots{display:flex;flex-wrap:wrap;gap:1rem}.plots svg{max-width:100%;height:auto}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mechanism_at_two_levels_has_one_colour_and_two_looks() {
        let (one, other) = ("scoot, serializable", "scoot, read committed");
        assert_eq!(color(one, 0), color(other, 1));
        assert_ne!((dash(one), shade(one)), (dash(other), shade(other)));
        assert_eq!((dash("heap, serializable"), shade("heap, serializable")), ("", ""));
        let engine = MECHANISMS.iter().filter(|(name, _)| !["auto", "fork_columns"].contains(name));
        let engine = engine.map(|(name, _)| format!("{name}, read committed"));
        let others =
            ["no queries", "mirror, no queries", "heap, serializable", "heap, repeatable read", "heap, read committed"];
        let all: Vec<String> = engine.chain(others.map(str::to_owned)).collect();
        let colors: std::collections::BTreeSet<_> = all.iter().map(|name| color(name, 0)).collect();
        assert_eq!(colors.len(), all.len());
        assert_ne!(color("heap, serializable", 0), color("heap, read committed", 0));
    }
}
