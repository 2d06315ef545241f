//! A figure that is computed from those of a page: `192 * 1000 / 2899`.

/// What is left to read of a formula, and the numbers that it has named.
struct Formula<'a> {
    rest: &'a str,
    numbers: Vec<&'a str>,
}

/// The value of a formula of numbers, `+ - * /` and brackets, and its numbers as written.
pub(super) fn value(text: &str) -> Result<(f64, Vec<&str>), String> {
    let mut formula = Formula { rest: text.trim_start(), numbers: Vec::new() };
    let value = formula.sum()?;
    if formula.rest.is_empty() {
        Ok((value, formula.numbers))
    } else {
        Err(format!("`{}` is left of `{text}`", formula.rest))
    }
}

impl Formula<'_> {
    /// Whether this comes next; then it is read.
    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut sum = self.product()?;
        loop {
            if self.takes('+') {
                sum += self.product()?;
            } else if self.takes('-') {
                sum -= self.product()?;
            } else {
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut product = self.atom()?;
        loop {
            if self.takes('*') {
                product *= self.atom()?;
            } else if self.takes('/') {
                product /= self.atom()?;
            } else {
                return Ok(product);
            }
        }
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.takes('(') {
            let inside = self.sum()?;
            return self.takes(')').then_some(inside).ok_or("a bracket is open".into());
        }
        let end = self.rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        self.numbers.push(number);
        number.parse().map_err(|_| format!("a number is missing before `{rest}`"))
    }
}

#[test]
fn products_go_before_sums_and_brackets_before_both() {
    assert_eq!(value("1 + 2 * 3 - 8 / 4").unwrap().0, 5.0);
    assert_eq!(value("(1 + 2) * 3 / 2").unwrap(), (4.5, vec!["1", "2", "3", "2"]));
    assert!(value("2 +").is_err() && value("(2").is_err() && value("2 x").is_err());
}
