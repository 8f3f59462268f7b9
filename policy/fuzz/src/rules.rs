use crate::properties::hold;
use crate::requests::about;
use crate::world::{ANCHORS, OPEN, WIDE, agent, engine, one_line};
use act_policy::{Answer, Aspect, Call, Decision, Engine, Explanation, KernelPlan, Layers, Permissions, Written};

/// Most calls and rules of one input.
const MOST: usize = 32;

/// Lines `LIST=RULE` are permission rules, all others are calls.
pub fn rules(text: &str) {
    let (mut written, mut calls) = (Vec::new(), Vec::new());
    for line in text.lines().take(MOST) {
        if line.split('(').next().is_some_and(|list| list.contains('=')) {
            match Permissions::parse_flag(line, &ANCHORS) {
                Ok(rule) => written.push(rule),
                Err(error) => one_line(&error),
            }
        } else {
            match Call::parse(line, &ANCHORS) {
                Ok(call) => calls.push(call),
                Err(error) => one_line(&error),
            }
        }
    }
    let layers = layers(&written);
    let by_agent = agent(&layers);
    let reversed: Vec<Written> = written.iter().rev().cloned().collect();
    let backwards = agent(&self::layers(&reversed));
    let kinder: Vec<Written> = written.iter().filter(|rule| rule.answer != Answer::Deny).cloned().collect();
    let without_denies = agent(&self::layers(&kinder));
    let mut requests = about(by_agent.policy());
    requests.extend(calls.iter().map(|call| call.request(by_agent.policy())));
    for request in &requests {
        let decision = by_agent.decide(request).decision;
        assert_eq!(decision, backwards.decide(request).decision, "the order of rules matters to {request:?}");
        assert!(without_denies.decide(request).decision <= decision, "a deny widens what is said of {request:?}");
    }
    let component = engine(&WIDE, &Layers { grant: Some(&OPEN), ..layers });
    for engine in component.iter().chain([&by_agent]) {
        hold(engine, &requests);
        let plan = KernelPlan::new(engine);
        for call in &calls {
            explained(call, engine, &plan);
        }
    }
    for call in &calls {
        named_by_itself(call);
    }
}

fn layers(permissions: &[Written]) -> Layers<'_> {
    Layers { permissions, workspace_root: ANCHORS.workspace, ..Layers::default() }
}

fn explained(call: &Call, engine: &Engine, plan: &KernelPlan) {
    let explanation = Explanation::new(call, engine, Some(plan));
    let verdict = engine.decide(&call.request(engine.policy()));
    assert_eq!(explanation.verdict, verdict.decision, "explained and decided differently: {}", call.text);
    assert_eq!(explanation.rule.is_some(), verdict.rule.is_some(), "explained by another rule: {}", call.text);
    explanation.text().lines().for_each(one_line);
}

/// A call written as a rule is about that call.
fn named_by_itself(call: &Call) {
    // The words of a command are globs in a rule and plain in a call.
    if call.aspect == Some(Aspect::Spawn) && call.text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
        return;
    }
    for (list, decision) in [("deny", Decision::Deny), ("ask", Decision::Ask), ("allow", Decision::Allow)] {
        let Ok(rule) = Permissions::parse_flag(&format!("{list}={}", call.text), &ANCHORS) else { return };
        let engine = agent(&layers(std::slice::from_ref(&rule)));
        let verdict = engine.decide(&call.request(engine.policy()));
        assert_eq!(verdict.decision, decision, "{list}={} and nothing else: {verdict:?}", call.text);
    }
}
