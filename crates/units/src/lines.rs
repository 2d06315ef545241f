//! Text and tables in lines of a given width, in letters.

/// A paragraph, broken between words into lines of at most `width` letters; a word that is longer
/// has a line of its own. The first line begins with `first`, the others with `further`.
pub fn wrapped(text: &str, (first, further): (&str, &str), width: usize) -> String {
    let mut out = first.to_owned();
    let mut used = first.chars().count();
    let mut is_begun = false;
    for word in text.split(' ') {
        let letters = word.chars().count();
        if is_begun && used + 1 + letters > width {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(further);
            used = further.chars().count();
        } else if is_begun {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += letters;
        is_begun = true;
    }
    out
}

/// Each line of a text wrapped by itself, as far in as it begins; without a width the text as it
/// is.
pub fn prose(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let line = |line: &str| {
        let words = line.trim_start_matches(' ');
        let indent = &line[..line.len() - words.len()];
        wrapped(words, (indent, indent), width)
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Which columns stand side by side where all together may be wider than `width`: in each part the
/// first `keys`, and as many of the others as fit beside them, one at least. `gap` blanks stand
/// between two columns.
pub fn side_by_side(widths: &[usize], keys: usize, gap: usize, width: usize) -> Vec<Vec<usize>> {
    let wide = |columns: &[usize]| columns.iter().map(|column| widths[*column] + gap).sum::<usize>();
    let fits = |columns: &[usize]| wide(columns) <= width + gap;
    let all: Vec<usize> = (0..widths.len()).collect();
    let (keys, others) = all.split_at(keys.min(all.len()));
    if fits(&all) || others.is_empty() {
        return vec![all];
    }
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for other in others {
        match parts.last_mut().filter(|part| fits(&[part, &[*other][..]].concat())) {
            Some(part) => part.push(*other),
            None => parts.push([keys, &[*other]].concat()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_not_before_they_are_full() {
        assert_eq!(wrapped("one two three", ("", ""), 7), "one two\nthree");
        assert_eq!(wrapped("one two three", ("", ""), 6), "one\ntwo\nthree");
        assert_eq!(wrapped("one two three", ("", ""), 13), "one two three");
        assert_eq!(wrapped("Zürich: 1 µs", ("", ""), 12), "Zürich: 1 µs", "letters, not bytes");
    }

    #[test]
    fn further_lines_have_a_beginning_of_their_own() {
        assert_eq!(wrapped("one two three", ("# - ", "#   "), 9), "# - one\n#   two\n#   three");
    }

    #[test]
    fn a_word_is_not_cut() {
        assert_eq!(wrapped("a /long/path b", ("", ""), 4), "a\n/long/path\nb");
        assert_eq!(wrapped("", ("", ""), 4), "");
    }

    #[test]
    fn each_line_of_prose_keeps_its_indent() {
        let text = "read: one two three\n  next: four five\n";
        assert_eq!(prose(text, Some(12)), "read: one\ntwo three\n  next: four\n  five\n");
        assert_eq!(prose(text, Some(80)), text);
    }

    #[test]
    fn what_does_not_fit_stands_below_beside_the_keys() {
        assert_eq!(side_by_side(&[4, 4, 4], 1, 2, 16), [[0, 1, 2]]);
        assert_eq!(side_by_side(&[4, 4, 4], 1, 2, 15), [[0, 1], [0, 2]]);
        assert_eq!(side_by_side(&[4, 4, 9], 1, 2, 3), [[0, 1], [0, 2]], "one at least");
        assert_eq!(side_by_side(&[4, 4], 2, 2, 3), [[0, 1]], "keys alone");
    }
}
