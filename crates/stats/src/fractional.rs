//! 2^(k−p) designs: a fraction of all combinations, at the price of effects that cannot be told
//! apart (Jain 1991, ch. 19).

use crate::effects::Effects;
use crate::error::StatsError;
use crate::factorial::{Term, TwoLevel};
use serde::Serialize;

/// A fraction of a two-level design: `base` factors run through all combinations, each further
/// factor takes the sign of a product of base factors (its generator, as in D = ABC).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fraction {
    /// Names of all k factors, the base factors first.
    pub factors: Vec<String>,
    /// How many factors run through all combinations: k − p.
    pub base: usize,
    /// For each further factor, in order, the product of base factors whose sign it takes.
    pub generators: Vec<Term>,
}

/// An effect of a fraction together with those it cannot be told from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Confounded {
    /// All products with the same column of signs, lowest order first. Their effects are measured
    /// as one sum.
    pub terms: Vec<Term>,
    /// Their names, joined by ` + `.
    pub name: String,
}

impl Fraction {
    /// A fraction from its factors (base factors first) and generators, one for each further
    /// factor.
    ///
    /// # Errors
    /// If there is no base factor or generator, counts do not match, or a generator is no product
    /// of two or more base factors.
    pub fn new(factors: &[&str], generators: &[Term]) -> Result<Self, StatsError> {
        let wrong = |why: String| Err(StatsError::Design { why });
        if generators.is_empty() || generators.len() >= factors.len() || factors.len() > 20 {
            return wrong(format!(
                "{} generators for {} factors (at most 20)",
                generators.len(),
                factors.len()
            ));
        }
        let base = factors.len() - generators.len();
        for (index, generator) in generators.iter().enumerate() {
            if generator.order() < 2 || generator.0 >> base != 0 {
                let name = factors[base + index];
                return wrong(format!(
                    "the generator of `{name}` must be a product of two or more of the first {base} factors"
                ));
            }
            if generators[..index].contains(generator) {
                return wrong(format!(
                    "two factors share the generator of `{}`: they could not be told apart",
                    factors[base + index]
                ));
            }
        }
        let factors = factors.iter().map(|&name| name.to_owned()).collect();
        Ok(Self { factors, base, generators: generators.to_vec() })
    }

    /// The runs to make, in the order in which [`Fraction::effects`] wants their results: for each,
    /// which factors are high.
    pub fn runs(&self) -> Vec<Vec<bool>> {
        (0..1usize << self.base)
            .map(|cell| {
                let own = (0..self.base).map(|j| cell >> j & 1 == 1);
                own.chain(self.generators.iter().map(|generator| generator.sign(cell) > 0.0)).collect()
            })
            .collect()
    }

    /// The defining relation: all products whose column of signs is constant 1, besides the mean
    /// (I = ABCD gives ABCD).
    pub fn defining_relation(&self) -> Vec<Term> {
        let words: Vec<u32> = self
            .generators
            .iter()
            .enumerate()
            .map(|(i, generator)| generator.0 | 1 << (self.base + i))
            .collect();
        let mut relation: Vec<Term> = (1u32..1 << words.len())
            .map(|chosen| {
                let product = words.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
                Term(product.fold(0, |product, (_, word)| product ^ word))
            })
            .collect();
        relation.sort_by_key(|term| (term.order(), *term));
        relation
    }

    /// The resolution: the order of the shortest word of the defining relation. At III main effects
    /// are confounded with interactions of two, at IV with those of three, at V interactions of two
    /// with those of three.
    pub fn resolution(&self) -> u32 {
        self.defining_relation()[0].order()
    }

    /// What a product cannot be told apart from (itself included), lowest order first.
    pub fn confounded_with(&self, term: Term) -> Confounded {
        let mut terms: Vec<Term> = vec![term];
        terms.extend(self.defining_relation().iter().map(|word| Term(word.0 ^ term.0)));
        terms.sort_by_key(|term| (term.order(), *term));
        let names: Vec<String> = terms.iter().map(|term| term.name(&self.factors)).collect();
        Confounded { name: names.join(" + "), terms }
    }

    /// Effects of a measured fraction, each named by all that it sums up (`A + BCD`), its `term`
    /// being the simplest of them.
    ///
    /// # Errors
    /// As [`TwoLevel::effects`].
    pub fn effects(&self, runs: Vec<Vec<f64>>, level: f64) -> Result<Effects, StatsError> {
        let base: Vec<&str> = self.factors[..self.base].iter().map(String::as_str).collect();
        let mut result = TwoLevel::new(&base, runs)?.effects(level)?;
        result.factors.clone_from(&self.factors);
        for effect in &mut result.effects {
            let confounded = self.confounded_with(effect.term);
            effect.term = confounded.terms[0];
            effect.name = confounded.name;
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half_of_four() -> Fraction {
        Fraction::new(&["A", "B", "C", "D"], &[Term(0b111)]).unwrap()
    }

    /// Jain 1991, §19.3 and 19.5: the 2^(4−1) design with D = ABC has I = ABCD and resolution IV.
    #[test]
    fn half_of_four_factors_confounds_pairs_with_pairs() {
        let fraction = half_of_four();
        assert_eq!(fraction.defining_relation(), [Term(0b1111)]);
        assert_eq!(fraction.resolution(), 4);
        assert_eq!(fraction.confounded_with(Term(0b0001)).name, "A + BCD");
        assert_eq!(fraction.confounded_with(Term(0b0011)).name, "AB + CD");
    }

    #[test]
    fn every_further_factor_is_high_as_often_as_low() {
        let fraction =
            Fraction::new(&["A", "B", "C", "D", "E", "F", "G"], &[Term(3), Term(5), Term(6), Term(7)])
                .unwrap();
        assert_eq!(fraction.resolution(), 3);
        assert_eq!(fraction.defining_relation().len(), 15);
        for factor in 0..7 {
            assert_eq!(fraction.runs().iter().filter(|run| run[factor]).count(), 4);
        }
    }

    #[test]
    fn a_main_effect_is_found_in_half_of_the_runs() {
        let fraction = half_of_four();
        let results = fraction
            .runs()
            .iter()
            .enumerate()
            .map(|(run, high)| {
                let y = 100.0 + if high[3] { 7.0 } else { -7.0 } + if high[0] { 2.0 } else { -2.0 };
                vec![y + 0.1 * (run % 2) as f64, y - 0.1 * (run % 2) as f64]
            })
            .collect();
        let effects = fraction.effects(results, 0.95).unwrap();
        let d = effects.effect("D + ABC").unwrap();
        assert!((d.estimate.value - 7.0).abs() < 1e-12 && d.term == Term(0b1000));
        assert!((effects.effect("A + BCD").unwrap().estimate.value - 2.0).abs() < 1e-12);
        assert!(effects.effect("B + ACD").unwrap().estimate.value.abs() < 1e-12);
    }

    #[test]
    fn generators_that_make_no_sense_are_refused() {
        assert!(Fraction::new(&["A", "B"], &[Term(1)]).is_err());
        assert!(Fraction::new(&["A", "B", "C", "D"], &[Term(3), Term(3)]).is_err());
        assert!(Fraction::new(&["A", "B", "C"], &[Term(0b101)]).is_err());
        assert!(Fraction::new(&["A", "B", "C"], &[]).is_err());
    }
}
