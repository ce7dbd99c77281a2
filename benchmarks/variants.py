"""Measure how well a check recognises its action in another spelling, and how often it warns of similar other actions.

python benchmarks/variants.py [--part first|second|third|all] [--misses]

Every action fails three times in one context; then a variant of it, or another action that only looks like it, is
checked in that context. Recognised means warned of or blocked. The pairs are written by hand, for programs, phrases and
tool calls. The rules of `learning.actions.command_lines` were made with the first part in view. The second was set
aside and looked at once (docs/benchmarks.md has the figures of that time); what was missing was added. The third has
other programs and phrases, was looked at once after that, and nothing was changed. Intervals are Wilson's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from engram.learning.decisions.comparisons import wilson
from engram.learning.failures.recognizer import FailureEvent, PatternRecognizer
from engram.learning.prevention.verdicts import check

CONTEXT = "release of the billing service"
FAILURES = 3

FIRST = """
# npm
npm install
= npm i
= sudo npm ci
= sudo npm install
= npm install --verbose
= CI=1 npm install
= cd web && npm install
= npm --prefix web install
= time npm install --no-audit
! npm test
! npm run build
! npm uninstall
! npm run install-hooks
! npm publish
! npm install --help
npm run build
= npm run-script build
= npm run build --silent
! npm run lint
! npm run build:docs
! npm start
npm install --production
= npm i --production
= npm --production install
! npm install
# pip
pip install -r requirements.txt
= pip3 install -r requirements.txt
= python -m pip install -r requirements.txt
= python3 -m pip install -r requirements.txt
= pip install --requirement requirements.txt
= pip install --quiet -r requirements.txt
= pip install -r dev/requirements.txt
= /srv/venv/bin/pip install -r requirements.txt
! pip uninstall -r requirements.txt
! pip freeze
! pip download -r requirements.txt
! python -m venv .venv
! pip install --dry-run -r requirements.txt
# docker
docker-compose up -d
= docker compose up -d
= docker compose up --detach
= sudo docker-compose up -d
= docker compose -f compose.yaml up -d
= docker compose up -d --quiet-pull
! docker compose down
! docker compose logs
! docker compose ps
! docker compose build
docker build -t app:17 .
= docker build --tag app:18 .
= docker image build -t app:17 .
= DOCKER_BUILDKIT=1 docker build -t app:17 .
= docker build . -t app:17
! docker push app:17
! docker run app:17
! docker images
docker rm web
= docker container rm web
! docker start web
! docker rmi web
# kubectl
kubectl apply -f a.yaml
= kubectl apply -f b.yaml
= kubectl apply --filename a.yaml
= kubectl apply --filename=a.yaml
= kubectl -n billing apply -f a.yaml
= kubectl apply -f a.yaml -n billing
= kubectl apply -f k8s/prod/a.yml
! kubectl diff -f a.yaml
! kubectl delete -f a.yaml
! kubectl apply -f a.yaml --dry-run=client
! kubectl get pods
kubectl rollout restart deployment/api
= kubectl rollout restart deploy/api
= kubectl rollout restart deployment api
! kubectl rollout status deployment/api
! kubectl rollout undo deployment/api
! kubectl describe deployment/api
# git
git push
= git -C /srv/app push
= git push origin main
= cd app && git push
= git push --verbose
! git push --force
! git push -f origin main
! git pull
! git fetch
! git push --dry-run
! git status
git push --force
= git push -f
= git push origin main --force
= git push --force origin main
! git push
! git push --force-with-lease
git reset --hard HEAD~1
= git reset --hard HEAD~2
= git -C app reset HEAD~1 --hard
! git reset --soft HEAD~1
! git reset
git stash pop
! git stash
! git stash list
# phrases of releases
rolling update
= do a rolling update
= perform a rolling update
= use rolling updates
= rolling-update
= Rolling update.
! canary update
! rolling restart
! roll back the update
restart the service with 4 workers
= restart the service with 8 workers
= restart service with 4 workers
= please restart the service with 4 workers
= restarting the service with 4 workers
! stop the service
! scale the service to 4 workers
! restart the database
deploy to production
= deploy it to production
= deploy to prod
! deploy to staging
clear the npm cache
= clear npm cache
= clearing the npm cache
! warm the npm cache
! clear the docker cache
# tool calls
read_channel(name='general')
= read_channel(name='random')
= read_channel(name="general")
= {"tool": "read_channel", "args": {"name": "general"}}
! send_message(channel='general')
! list_channels()
http_get(url='https://example.com/1', timeout=5)
= http_get(timeout=5, url='https://example.com/2')
! http_post(url='https://example.com/1', timeout=5)
"""

SECOND = """
# yarn
yarn install
= yarn
= yarn install --silent
= sudo yarn install
= yarn --cwd web install
! yarn test
! yarn build
! yarn remove left-pad
! yarn install --help
pnpm install
= pnpm i
! pnpm run build
# terraform
terraform apply
= terraform apply -auto-approve
= terraform -chdir=infra apply
= TF_LOG=debug terraform apply
= terraform apply -no-color
! terraform plan
! terraform destroy
! terraform apply -destroy
! terraform init
terraform state rm aws_instance.web
! terraform state list
# apt
apt-get install curl
= sudo apt-get install -y curl
= apt install curl
= apt-get -y install curl
= DEBIAN_FRONTEND=noninteractive apt-get install -y curl
! apt-get remove curl
! apt-get update
! apt-get purge curl
# systemctl
systemctl restart nginx
= sudo systemctl restart nginx
= systemctl restart nginx.service
= systemctl --no-pager restart nginx
! systemctl status nginx
! systemctl stop nginx
! systemctl reload nginx
# cargo
cargo build
= cargo b
= cargo build --verbose
= cargo +nightly build
= RUSTFLAGS=-g cargo build
! cargo test
! cargo check
! cargo clean
! cargo run
# pytest
pytest tests/
= python -m pytest tests/
= python3 -m pytest -q tests/
= pytest -v tests/
= poetry run pytest tests/
= pytest tests/unit
! pytest --collect-only tests/
! python -m unittest
! pytest --version
# helm
helm upgrade api ./chart
= helm upgrade api ./chart --namespace billing
= helm -n billing upgrade api ./chart
! helm rollback api
! helm list
! helm upgrade api ./chart --dry-run
! helm uninstall api
# aws
aws s3 sync build s3://site
= aws --profile ops s3 sync build s3://site
= aws s3 sync build s3://site --region eu-west-1
! aws s3 ls s3://site
! aws s3 sync build s3://site --dryrun
! aws s3 rm s3://site
aws ecs update-service --cluster a --service b
! aws ecs describe-services --cluster a
# gradle
./gradlew build
= gradle build
= ./gradlew build --info
= ./gradlew --quiet build
! ./gradlew test
! ./gradlew clean
! ./gradlew tasks
# make
make release
= make -j4 release
= make -C app release
= make release V=1
! make test
! make clean
! make -n release
# databases
psql -f migrate.sql
= psql --file migrate.sql
= psql --file=other.sql
! pg_dump app
alembic upgrade head
= python -m alembic upgrade head
= alembic -c prod.ini upgrade head
! alembic downgrade -1
! alembic history
# copies
rsync -avz build/ host:/srv/app
= rsync -a -v -z build/ host:/srv/app
= rsync -avz dist/ host:/srv/app
! rsync -avzn build/ host:/srv/app
! rsync -avz --delete build/ host:/srv/app
rm -rf build
= rm -fr build
= rm -r -f build
= rm --recursive --force build
! ls build
! rmdir build
# phrases of support
refund the order
= refund order
= issue a refund for the order
= refund the order of customer 4711
= process the refund of the order
! refuse the refund
! cancel the order
! resend the order
escalate to tier 2
= escalate this to tier 2
= escalate the ticket to tier 2
! close the ticket
offer a discount of 10%
= offer a 15% discount
= offering a discount of 10%
! explain the discount
retry-with-backoff
= retry with backoff
= retry using backoff
! retry-with-exponential-backoff
! retry-at-once
# calls of tools
search_orders(customer_id=17, limit=5)
= search_orders(limit=10, customer_id=4)
= {"name": "search_orders", "arguments": {"customer_id": 9, "limit": 5}}
= search_orders({"customer_id": 3, "limit": 5})
! cancel_orders(customer_id=17, limit=5)
! search_customers(customer_id=17)
"""

THIRD = """
# brew
brew install jq
= brew install --quiet jq
= brew reinstall jq
! brew uninstall jq
! brew update
! brew info jq
# gh
gh pr create
= gh pr create --title "fix"
= gh pr create --fill
= GH_TOKEN=x gh pr create
! gh pr merge
! gh pr list
! gh issue create
# ansible
ansible-playbook site.yml
= ansible-playbook -i hosts site.yml
= ansible-playbook site.yml -v
= ansible-playbook deploy/site.yml
! ansible-playbook site.yml --check
! ansible-playbook site.yml --syntax-check
! ansible-galaxy install -r roles.yml
# mvn
mvn package
= mvn -q package
= ./mvnw package
= mvn package -DskipTests
! mvn test
! mvn clean
! mvn dependency:tree
# go
go build ./...
= go build -v ./...
= CGO_ENABLED=0 go build ./...
= go build ./cmd/api
! go test ./...
! go vet ./...
! go mod tidy
# gcloud
gcloud run deploy api
= gcloud run deploy api --quiet
= gcloud --project shop run deploy api
= gcloud run deploy web
! gcloud run services list
! gcloud run services describe api
# curl
curl -X POST https://api.example.com/orders
= curl -s -X POST https://api.example.com/orders
= curl --request POST https://api.example.com/orders
! curl https://api.example.com/orders
! curl -X DELETE https://api.example.com/orders
! wget https://api.example.com/orders
# conda
conda install numpy
= conda install -y numpy
= conda install numpy=1.26
= mamba install numpy
! conda remove numpy
! conda list
# ssh
scp app.tar host:/srv
= scp -q app.tar host:/srv
= scp web.tar host:/srv
! ssh host
# django
python manage.py migrate
= python3 manage.py migrate
= ./manage.py migrate
= python manage.py migrate --noinput
! python manage.py makemigrations
! python manage.py test
! python manage.py migrate --fake
# phrases of data
backfill the table for May
= backfill table for June
= backfilling the table for May
= run a backfill of the table
! drop the table
! vacuum the table
rerun the nightly job
= rerun nightly job
= re-run the nightly job
! skip the nightly job
! delete the nightly job
# phrases of a shop floor
slow the conveyor down to 40%
= slow the conveyor down to 60%
= please slow the conveyor down to 40%
! speed the conveyor up to 40%
! stop the conveyor
recalibrate the gripper
= recalibrate gripper
= recalibrating the gripper
= do a recalibration of the gripper
! replace the gripper
! open the gripper
# more calls of tools
send_email(to='a@example.com', subject='hi')
= send_email(subject='yo', to='b@example.com')
= {"function": "send_email", "arguments": {"to": "c@example.com", "subject": "x"}}
! draft_email(to='a@example.com', subject='hi')
! list_emails()
"""


class Pair(NamedTuple):
    """An action that failed, one to check, and whether that is the same in another spelling."""

    group: str
    failed: str
    asked: str
    variant: bool


def pairs(text: str) -> Iterator[Pair]:
    """Parse a list: `#` begins a group, `=` a variant of the action above it, `!` a similar other action."""
    group, failed = "", ""
    for line in text.strip().splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "#":
            group = rest
        elif mark in ("=", "!"):
            yield Pair(group, failed, rest, mark == "=")
        else:
            failed = line


def warned(pair: Pair) -> bool:
    """Return whether the action is warned of or blocked after the other one failed."""
    known, now = PatternRecognizer(), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(FAILURES):
        now += timedelta(minutes=1)
        said = FailureEvent("decision", f"d{number}", now, "agent", action=pair.failed, context=CONTEXT, quality=0.0)
        known.fold(said)
    return check(known, pair.asked, CONTEXT, now=now).decision != "allow"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("first", "second", "third", "all"), default="all")
    parser.add_argument("--misses", action="store_true", help="also print the pairs that are judged wrongly")
    given = parser.parse_args()
    parts: Mapping[str, str] = {"first": FIRST, "second": SECOND, "third": THIRD}
    print(f"{'part':<8} {'variants recognised':<32} near ones warned of")
    for name, text in parts.items():
        if given.part not in (name, "all"):
            continue
        judged = [(pair, warned(pair)) for pair in pairs(text)]
        shares = []
        for variant in (True, False):
            found = [hit for pair, hit in judged if pair.variant == variant]
            low, high = wilson(sum(found), len(found))
            shares.append(f"{sum(found) / len(found):>4.0%} of {len(found)} ({low:.0%} to {high:.0%})")
        print(f"{name:<8} {shares[0]:<32} {shares[1]}")
        for pair, hit in judged:
            if given.misses and hit != pair.variant:
                what = "not recognised" if pair.variant else "warned of"
                print(f"  {pair.group}: {pair.asked!r} after {pair.failed!r} {what}")


if __name__ == "__main__":
    main()
