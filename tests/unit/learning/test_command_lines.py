from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.actions.command_lines import SIBLINGS, canonical_form
from engram.learning.actions.parsing import SIBLING_SIMILARITY, action_similarity, parse_action


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("npm install", "sudo -E npm install"),
        ("npm install", "sudo -u build npm install"),
        ("npm install", "CI=1 time npm install"),
        ("npm install", "env CI=1 npm install"),
        ("npm install", "run npm install"),
        ("pytest tests/", "poetry run pytest tests/"),
        ("eslint src/", "npx eslint src/"),
        ("rake db:seed", "bundle exec rake db:seed"),
        ("npm install", "bash -c 'npm install'"),
        ("npm install", 'sudo /bin/sh -lc "cd web && npm i"'),
        ("npm install", "npm install 2>&1 | tee log.txt"),
        ("npm install", "cd web && npm install > install.log 2>&1"),
        ("npm install", "npm install |& tail -n 20"),
    ],
)
def test_wrappers_and_variables_before_a_program_are_left_out(one: str, other: str) -> None:
    assert parse_action(one).key == parse_action(other).key
    assert parse_action(one).exact == parse_action(other).exact


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("npm install", "npm i"),
        ("npm run build", "npm run-script build"),
        ("pip install -r a.txt", "pip3 install -r a.txt"),
        ("pip install -r a.txt", "python3.11 -m pip install --requirement a.txt"),
        ("docker compose up -d", "docker-compose up --detach"),
        ("docker build -t app:1 .", "docker image build --tag app:1 ."),
        ("pip install -r a.txt", "uv pip install -r a.txt"),
        ("kubectl apply -f a.yaml", "k apply -f a.yaml"),
        ("git push -f", "git push --force"),
        ("git push -u origin main", "git push origin main"),
        ("git push origin main", "git push --set-upstream origin main"),
        ("git push origin +main", "git push --force origin main"),
        ("git push origin :old", "git push -d origin old"),
        ("yarn install", "yarn"),
        ("cargo build", "cargo +nightly b"),
        ("./gradlew build", "gradle build"),
    ],
)
def test_other_names_of_a_program_a_subcommand_and_an_option_are_the_very_same(one: str, other: str) -> None:
    assert parse_action(one).key == parse_action(other).key
    assert parse_action(one).exact == parse_action(other).exact


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("kubectl apply -f a.yaml --namespace billing", "kubectl apply --namespace=billing -f a.yaml"),
        ("npm install --production --save", "npm --save --production install"),
        ("tar -xzf a.tar", "tar -z -x -f a.tar"),
        ("git -C app push origin", "git push -C app origin"),
    ],
)
def test_options_have_no_order_and_a_value_may_follow_an_equals_sign(one: str, other: str) -> None:
    assert parse_action(one).key == parse_action(other).key


def test_a_short_option_is_taken_for_the_long_one_with_its_initial() -> None:
    assert action_similarity(parse_action("psql -f a.sql"), parse_action("psql --file=a.sql")) == 1
    assert action_similarity(parse_action("psql -f a.sql"), parse_action("psql --quick --host a.sql")) < 1


def test_a_number_before_what_it_counts_does_not_matter() -> None:
    assert action_similarity(parse_action("offer a discount of 10%"), parse_action("offer a 15% discount")) == 1


@pytest.mark.parametrize("option", ["--verbose", "-q", "-y", "--no-audit", "--no-color", "--quiet-pull"])
def test_options_about_what_is_shown_or_asked_do_not_matter(option: str) -> None:
    assert parse_action("npm install").key == parse_action(f"npm install {option}").key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git push", "git push --force"),
        ("git push --force", "git push --force-with-lease"),
        ("git push", "git push --tags"),
        ("git push", "git push --mirror"),
        ("git push origin old", "git push origin :old"),
        ("git push origin main", "git push origin +main"),
        ("send the invoice by email", "send the invoice by post"),
        ("send the invoice by email", "send the invoice by fax"),
        ("restart the payment service", "restart the payment database"),
        ("restart payment service", "restart the payment database"),
        ("npm install", "npm install --production"),
        ("npm install", "npm install --legacy-peer-deps"),
        ("npm install", "npm install --help"),
        ("pytest", "pytest --collect-only"),
        ("kubectl apply -f a.yaml", "kubectl apply -f a.yaml --dry-run=client"),
        ("git reset --hard", "git reset --soft"),
        ("scale up the service", "scale down the service"),
        ("restart the service", "restart the service without the cache"),
    ],
)
def test_an_option_or_a_word_that_is_decisive_makes_another_action(one: str, other: str) -> None:
    assert action_similarity(parse_action(one), parse_action(other)) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("docker compose up", "docker compose down"),
        ("kubectl rollout restart deployment/api", "kubectl rollout undo deployment/api"),
        ("aws ecs update-service --service a", "aws ecs delete-service --service a"),
        ("git stash pop", "git stash"),
        ("npm run build", "npm run build:docs"),
    ],
)
def test_a_second_subcommand_and_the_name_of_a_task_tell_what_is_done(one: str, other: str) -> None:
    assert action_similarity(parse_action(one), parse_action(other)) == 0


@pytest.mark.parametrize(
    "other", ["do a rolling update", "use rolling updates", "rolling-update", "please perform the rolling update."]
)
def test_a_phrase_is_the_same_in_other_forms_of_its_words_and_with_words_that_add_nothing(other: str) -> None:
    assert action_similarity(parse_action("rolling update"), parse_action(other)) == 1


def test_names_in_a_phrase_and_arguments_of_a_command_are_values() -> None:
    assert action_similarity(parse_action("send the report to Alice"), parse_action("send the report to Bob")) > 0.6
    assert action_similarity(parse_action("git push origin main"), parse_action("git push origin develop")) > 0.6
    assert action_similarity(parse_action("compare load > 5"), parse_action("compare load > 6")) == 1


def test_actions_for_different_environments_are_different_and_short_names_of_one_are_the_same() -> None:
    one, other = parse_action("kubectl apply -n prod -f a.yaml"), parse_action("kubectl apply -n staging -f a.yaml")
    assert action_similarity(one, other) == 0
    assert action_similarity(one, parse_action("kubectl apply --namespace=production -f a.yaml")) == 1
    assert action_similarity(one, parse_action("kubectl apply -f a.yaml")) > 0.6
    assert action_similarity(parse_action("deploy to prod"), parse_action("deploy it to production")) == 1
    assert action_similarity(parse_action("deploy to prod"), parse_action("deploy to staging")) == 0


def test_a_sibling_is_near_enough_to_warn_and_not_to_block() -> None:
    assert action_similarity(parse_action("npm install"), parse_action("sudo npm ci")) == SIBLING_SIMILARITY
    assert action_similarity(parse_action("npm ci"), parse_action("npm install")) == SIBLING_SIMILARITY
    assert all(SIBLINGS[other] == one for one, other in SIBLINGS.items())


@given(st.lists(st.sampled_from(["git", "push", "-f", "--force", "-C", "a/b", "x=1", "-rf", "up", "prod", "'"])))
def test_a_head_has_three_words_at_most_and_what_is_decisive_is_not_in_the_rest(parts: list[str]) -> None:
    found = canonical_form(" ".join(parts))
    assert len(found.head) <= 3
    assert not found.decisive & found.rest
