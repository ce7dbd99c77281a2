"""Generate labelled secrets, personal data and look-alikes from a seed, so that none of them is stored anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import string
import sysconfig
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM = LOWER + UPPER + DIGITS
WORD = ALNUM + "_-"
HEX = DIGITS + "abcdef"
BASE32 = UPPER + "234567"
BASE64 = ALNUM + "+/"

Make = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class Label:
    """Characters from `start` up to `end` are of this type."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A text, its labels, and its source."""

    text: str
    labels: tuple[Label, ...] = ()
    source: str = ""


def pick(rng: Random, alphabet: str, length: int) -> str:
    """Return random characters; with at least two digits and a letter if the alphabet has them, as real keys do."""
    while True:
        body = "".join(rng.choices(alphabet, k=length))
        digits = sum(c.isdigit() for c in body)
        short = length < 8 or not (set(alphabet) & set(DIGITS)) or alphabet == DIGITS
        if short or (digits >= 2 and digits < length):
            return body


def shape(*parts: str | tuple[str, int] | tuple[str, int, int]) -> Make:
    """Return a generator of keys: literal parts, and (alphabet, length) or (alphabet, least, most) at random."""

    def make(rng: Random) -> str:
        built = ""
        for part in parts:
            if isinstance(part, str):
                built += part
            else:
                built += pick(rng, part[0], rng.randint(part[1], part[-1]))
        return built

    return make


def one_of(*makers: Make) -> Make:
    """Return a generator that picks one of several."""
    return lambda rng: rng.choice(makers)(rng)


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _jwt(rng: Random) -> str:
    head = _encoded({"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    body = _encoded({"sub": pick(rng, DIGITS, 10), "name": rng.choice(PEOPLE), "iat": rng.randrange(10**9, 2 * 10**9)})
    return f"{head}.{body}.{pick(rng, WORD, rng.choice([43, 86, 342]))}"


def _pem(rng: Random) -> str:
    kind = rng.choice(["RSA ", "EC ", "OPENSSH ", "DSA ", "ENCRYPTED ", ""])
    lines = [pick(rng, BASE64, 64) for _ in range(rng.randint(3, 12))] + [pick(rng, BASE64, rng.randint(20, 60)) + "="]
    begin, end = ("-----" + edge + f" {kind}PRIVATE" + " KEY-----" for edge in ("BEGIN", "END"))
    return "\n".join([begin, *lines, end])


def _discord(rng: Random) -> str:
    snowflake = str(rng.randrange(10**17, 10**19 // 8))
    first = base64.b64encode(snowflake.encode()).decode().rstrip("=")
    return f"{first}.{pick(rng, WORD, 6)}.{pick(rng, WORD, rng.choice([27, 38]))}"


def _uuid(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _mapbox(rng: Random) -> str:
    return f"sk.{_encoded({'u': pick(rng, LOWER, 8), 'a': pick(rng, LOWER + DIGITS, 25)})}.{pick(rng, WORD, 22)}"


# Prefixes are split, so that secret scanners do not report this file.
PROVIDERS: Mapping[str, Make] = {
    "age": shape("AGE-SEC" + "RET-KEY-1", (UPPER.replace("B", "").replace("I", "").replace("O", "") + DIGITS, 58)),
    "airtable": shape("pa" + "t", (ALNUM, 14), ".", (HEX, 64)),
    "alibaba": shape("LT" + "AI", (ALNUM, 20)),
    "anthropic": shape("sk" + "-ant-", *["api03-"], (WORD, 93), "AA"),
    "anthropic oauth": shape("sk" + "-ant-oat01-", (WORD, 80, 100)),
    "apify": shape("api" + "fy_api_", (ALNUM, 36)),
    "atlassian": shape("ATA" + "TT3xFfGF0", (WORD, 170, 190), "=", (HEX.upper(), 8)),
    "aws access key": shape("AK" + "IA", (BASE32, 16)),
    "aws bedrock": shape("ABS" + "KQmVkcm9ja0FQSUtleS", (BASE64, 100, 112)),
    "aws temporary key": shape("AS" + "IA", (BASE32, 16)),
    "azure client secret": shape((ALNUM, 3), "8" + "Q~", (ALNUM + "_-.~", 33), (ALNUM, 1)),
    "azure storage": shape((BASE64, 86), "=" + "="),
    "brevo": shape("xke" + "ysib-", (HEX, 64), "-", (ALNUM, 16)),
    "buildkite": shape("bk" + "ua_", (HEX, 40)),
    "cerebras": shape("cs" + "k-", (LOWER + DIGITS, 48)),
    "circleci": shape("CCI" + "PAT_", (ALNUM, 22), "_", (HEX, 40)),
    "clojars": shape("CLOJ" + "ARS_", (HEX, 60)),
    "cloudflare origin": shape("v1" + ".0-", (HEX, 24), "-", (HEX, 146)),
    "contentful": shape("CFP" + "AT-", (WORD, 43)),
    "crates.io": shape("ci" + "o", (ALNUM, 32)),
    "databricks": one_of(shape("da" + "pi", (HEX, 32)), shape("da" + "pi", (HEX, 32), "-2")),
    "deepseek": shape("sk" + "-", (HEX, 32)),
    "digitalocean": one_of(*(shape(f"do{kind}" + "_v1_", (HEX, 64)) for kind in "por")),
    "discord bot": _discord,
    "docker": one_of(shape("dc" + "kr_pat_", (WORD, 27)), shape("dc" + "kr_oat_", (WORD, 32))),
    "doppler": shape("dp" + ".pt.", (ALNUM, 43)),
    "dropbox": shape("sl" + ".", (WORD, 130, 140)),
    "dynatrace": shape("dt0" + "c01.", (UPPER + DIGITS, 24), ".", (UPPER + DIGITS, 64)),
    "e2b": shape("e2" + "b_", (HEX, 40)),
    "easypost": shape("EZ" + "AK", (ALNUM, 54)),
    "elevenlabs": shape("sk" + "_", (HEX, 48)),
    "engram": shape("en" + "g_", (ALNUM, 32, 48)),
    "figma": shape("fi" + "gd_", (WORD, 40)),
    "firebase messaging": shape("AAA" + "A", (WORD, 7), ":APA91b", (WORD, 134)),
    "firecrawl": shape("f" + "c-", (HEX, 32)),
    "fireworks": shape("f" + "w_", (ALNUM, 24)),
    "flutterwave": shape("FLWS" + "ECK-", (HEX, 32), "-X"),
    "fly": shape("fm" + "2_", (BASE64, 200, 260)),
    "github fine-grained": shape("github" + "_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "github": one_of(*(shape(f"gh{kind}" + "_", (ALNUM, 36)) for kind in "pousr")),
    "gitlab": one_of(
        shape("gl" + "pat-", (WORD, 20)), shape("gl" + "rt-t1_", (WORD, 20)), shape("gl" + "dt-", (WORD, 20))
    ),
    "google api": shape("AI" + "za", (WORD, 35)),
    "google client secret": shape("GOC" + "SPX-", (WORD, 28)),
    "google refresh token": shape("1/" + "/0", (WORD, 60, 100)),
    "google token": shape("ya" + "29.", (WORD, 120, 180)),
    "grafana": one_of(shape("gl" + "sa_", (ALNUM, 32), "_", (HEX, 8)), shape("gl" + "c_eyJ", (BASE64, 80, 120))),
    "groq": shape("gs" + "k_", (ALNUM, 52)),
    "heroku": shape("HR" + "KU-AA", (WORD, 58)),
    "hubspot": lambda rng: "pa" + "t-" + rng.choice(["na1", "eu1", "na2"]) + "-" + _uuid(rng),
    "huggingface": shape("h" + "f_", (LOWER + UPPER + DIGITS, 34)),
    "jina": shape("ji" + "na_", (HEX, 32), (WORD, 28)),
    "jwt": _jwt,
    "langfuse": lambda rng: "sk" + "-lf-" + _uuid(rng),
    "langsmith": one_of(
        shape("ls" + "v2_pt_", (HEX, 32), "_", (HEX, 10)), shape("ls" + "v2_sk_", (HEX, 32), "_", (HEX, 10))
    ),
    "launchdarkly": lambda rng: rng.choice(["sd" + "k-", "ap" + "i-"]) + _uuid(rng),
    "linear": shape("li" + "n_api_", (ALNUM, 40)),
    "llamacloud": shape("ll" + "x-", (ALNUM, 48)),
    "mailchimp": lambda rng: pick(rng, HEX, 32) + "-" + f"us{rng.randint(1, 22)}",
    "mailgun": one_of(shape("ke" + "y-", (HEX, 32)), shape((HEX, 32), "-", (HEX, 8), "-", (HEX, 8))),
    "mapbox": _mapbox,
    "mem0": shape("m" + "0-", (ALNUM, 40)),
    "nats": one_of(*(shape("S" + kind, (BASE32, 56)) for kind in "UAON")),
    "neon": shape("np" + "g_", (ALNUM, 12, 14)),
    "netlify": shape("nf" + "p_", (ALNUM, 36)),
    "new relic": one_of(
        shape("NR" + "AK-", (UPPER + DIGITS, 27)), shape("NR" + "II-", (WORD, 32)), shape((HEX, 36), "NR" + "AL")
    ),
    "notion": one_of(shape("nt" + "n_", (ALNUM, 46)), shape("sec" + "ret_", (ALNUM, 43))),
    "npm": shape("np" + "m_", (ALNUM, 36)),
    "nuget": shape("oy" + "2", (LOWER + DIGITS, 43)),
    "nvidia": shape("nv" + "api-", (WORD, 64)),
    "okta": shape("SS" + "WS 00", (WORD, 40)),
    "openai": one_of(
        shape("sk" + "-", (ALNUM, 20), "T3Blb" + "kFJ", (ALNUM, 20)), shape("sk" + "-proj-", (WORD, 120, 156))
    ),
    "openai service": one_of(shape("sk" + "-svcacct-", (WORD, 130, 150)), shape("sk" + "-admin-", (WORD, 130, 150))),
    "openrouter": shape("sk" + "-or-v1-", (HEX, 64)),
    "paypal": shape("A2" + "1AA", (WORD, 92)),
    "perplexity": shape("pp" + "lx-", (ALNUM, 48)),
    "pinecone": shape("pc" + "sk_", (ALNUM, 5), "_", (ALNUM, 62)),
    "plaid": lambda rng: "access-" + rng.choice(["sandbox", "production"]) + "-" + _uuid(rng),
    "planetscale": one_of(shape("pscale" + "_tkn_", (WORD, 43)), shape("pscale" + "_pw_", (WORD, 43))),
    "posthog": one_of(shape("ph" + "x_", (ALNUM, 43)), shape("ph" + "s_", (ALNUM, 43))),
    "postman": shape("PM" + "AK-", (HEX, 24), "-", (HEX, 34)),
    "private key": _pem,
    "pulumi": shape("pu" + "l-", (HEX, 40)),
    "pypi": shape("py" + "pi-AgEIcHlwaS5vcmc", (WORD, 130, 160)),
    "readme": shape("rd" + "me_", (LOWER + DIGITS, 70)),
    "replicate": shape("r" + "8_", (ALNUM, 37)),
    "resend": shape("r" + "e_", (ALNUM, 8), "_", (ALNUM, 24)),
    "rubygems": shape("ruby" + "gems_", (HEX, 48)),
    "salesforce": shape("00" + "D", (ALNUM, 12), "!", (ALNUM + "._", 96)),
    "sendgrid": shape("S" + "G.", (WORD, 22), ".", (WORD, 43)),
    "sentry": one_of(shape("snt" + "ryu_", (HEX, 64)), shape("snt" + "rys_eyJ", (BASE64, 90, 120), "_", (ALNUM, 43))),
    "shippo": shape("ship" + "po_live_", (HEX, 40)),
    "shopify": one_of(shape("sh" + "pat_", (HEX, 32)), shape("sh" + "pss_", (HEX, 32))),
    "slack": one_of(
        shape("xo" + "xb-", (DIGITS, 11, 13), "-", (DIGITS, 12, 13), "-", (ALNUM, 24)),
        shape("xo" + "xp-", (DIGITS, 12), "-", (DIGITS, 12), "-", (DIGITS, 13), "-", (HEX, 32)),
        shape("xa" + "pp-1-A0", (UPPER + DIGITS, 9), "-", (DIGITS, 13), "-", (HEX, 64)),
        shape("xo" + "xe-1-", (ALNUM, 146)),
    ),
    "sourcegraph": shape("sg" + "p_", (HEX, 16), "_", (HEX, 40)),
    "square": one_of(shape("sq" + "0atp-", (WORD, 22)), shape("EA" + "AA", (WORD, 60))),
    "stripe": one_of(
        *(shape(kind + mode, (ALNUM, 24, 99)) for kind in ("s" + "k", "r" + "k") for mode in ("_live_", "_test_"))
    ),
    "stripe webhook": shape("wh" + "sec_", (ALNUM, 32)),
    "supabase": one_of(shape("sb" + "p_", (HEX, 40)), shape("sb" + "_secret_", (WORD, 31))),
    "tailscale": shape("ts" + "key-auth-", (ALNUM, 11), "CNTRL-", (ALNUM, 32)),
    "tavily": one_of(shape("tv" + "ly-", (ALNUM, 32)), shape("tv" + "ly-dev-", (ALNUM, 32))),
    "telegram": shape((DIGITS, 9, 10), ":A" + "A", (WORD, 33)),
    "terraform": shape((ALNUM, 14), ".atlas" + "v1.", (WORD, 67)),
    "together": shape("tgp" + "_v1_", (WORD, 43)),
    "twilio": shape("S" + "K", (HEX, 32)),
    "typeform": shape("tf" + "p_", (WORD, 59)),
    "vault": one_of(shape("hv" + "s.", (WORD, 24, 95)), shape("hv" + "b.AAAAAQ", (WORD, 140, 180))),
    "vercel": shape("vc" + "p_", (ALNUM, 56)),
    "voyage": shape("p" + "a-", (WORD, 43)),
    "wandb": shape("wan" + "db_v1_", (ALNUM, 27), "_", (ALNUM, 50)),
    "xai": shape("xa" + "i-", (ALNUM, 80)),
}
"""Keys with a recognisable format, from the documentation of their providers."""

CONTEXTS: Mapping[str, Sequence[str]] = {
    "chat": (
        "ok so I made a new one, it's {}",
        "here: {}. Can you wire it up before lunch?",
        "Use `{}` for the demo, I'll revoke it after.",
        "Bob said\n> {}\nand then it worked on my machine",
    ),
    "env": (
        "LOG_LEVEL=info\nUPSTREAM={}\nTZ=UTC\n",
        'export UPSTREAM_VALUE="{}"',
        "ACME_THING='{}'\n",
        "set ACME={}",
    ),
    "json": (
        '{{"upstream": {{"value": "{}", "timeout": 5}}}}',
        '{{"args":["--x","{}"],"id":17}}',
        '[{{"k":1,"v":"{}"}}]',
        '{{\n  "region": "eu-west-1",\n  "thing": "{}"\n}}',
    ),
    "code": (
        'upstream = Upstream("{}")',
        "const c = connect({{ value: '{}', retries: 2 }});",
        "    return fetch(url, headers={{'X-Acme': '{}'}})",
        'client := acme.New("{}") // staging',
    ),
    "log": (
        "2026-02-11 08:13:07,114 DEBUG acme.client: sending {} to upstream",
        "level=warn ts=1767000000 msg=retry value={} attempt=2",
        "[worker-3] E0211 08:13:07 rejected: {}",
        "Feb 11 08:13:07 web1 acme[812]: got {}, closing",
    ),
    "curl": (
        "curl -X POST https://api.acme.io/v2/run -H 'X-Acme: {}' -d @body.json",
        'curl -sS "https://api.acme.io/v2/run?value={}"',
        "curl https://api.acme.io/v2/run --data 'value={}'",
        'http POST api.acme.io/v2/run x-acme:"{}"',
    ),
}

PEOPLE = ("Ann Lee", "Bob Stone", "Chen Wei", "Dana Cruz", "Emil Roth", "Fatima Noor", "Goran Ilic", "Hana Sato")
_NOUNS = ("maple", "Harbor", "pepper", "Sunset", "marble", "Panda", "lemon", "Wizard", "cactus", "Galaxy", "turtle")


def _human(rng: Random) -> str:
    forms = (
        lambda: rng.choice(_NOUNS) + rng.choice("!#$%*@+") + str(rng.randrange(10, 9999)),
        lambda: (
            rng.choice(_NOUNS) + rng.choice("-_.") + rng.choice(_NOUNS) + str(rng.randrange(1, 99)) + rng.choice("!?#")
        ),
        lambda: str(rng.randrange(10, 99)) + rng.choice(_NOUNS) + rng.choice(_NOUNS).upper() + rng.choice("$!%"),
        lambda: rng.choice(_NOUNS).replace("a", "4").replace("e", "3") + str(rng.randrange(100, 999)) + "!",
    )
    return rng.choice(forms)()


def _generated(rng: Random) -> str:
    return pick(rng, ALNUM + "!#%*+-_.", rng.randint(12, 28)) + rng.choice(ALNUM)


_hex32, _token = shape((HEX, 32)), shape((ALNUM, 32, 48))

PLACES: Mapping[str, tuple[Make, Sequence[str]]] = {
    "database url": (
        _generated,
        ("postgres://svc:{}@db1.acme.io:5432/app", "url = 'mysql+pymysql://root:{}@10.1.2.3/shop'"),
    ),
    "cache url": (_token, ("REDIS_URL=rediss://default:{}@cache.acme.io:6379", "redis://:{}@localhost:6379/1")),
    "web url": (_human, ("wget https://deploy:{}@files.acme.io/a.tgz", "see ftp://bob:{}@ftp.acme.io/")),
    "queue url": (_human, ("amqps://worker:{}@mq.acme.io/vhost", "broker_url: amqp://svc:{}@mq:5672/")),
    "bearer header": (
        _token,
        ("Authorization: Bearer {}", "-H 'authorization: bearer {}'", '"Authorization": "Bearer {}"'),
    ),
    "basic header": (
        lambda rng: base64.b64encode(f"bob:{_generated(rng)}".encode()).decode(),
        ("Authorization: Basic {}", '{{"authorization": "Basic {}"}}', "headers['Authorization'] = 'Basic {}'"),
    ),
    "api key header": (_hex32, ("X-API-Key: {}", "curl -H 'api-key: {}' https://acme.io", "x-auth-token: {}")),
    "cookie": (_token, ("Cookie: lang=de; session_id={}; x=1", "Set-Cookie: JSESSIONID={}; Path=/")),
    "env password": (_human, ("POSTGRES_PASSWORD={}", "export SMTP_PASS='{}'", "MYSQL_ROOT_PASSWORD: {}")),
    "env secret": (_token, ("DJANGO_SECRET_KEY={}", "JWT_SECRET={}", "ACME_API_KEY={}", "STORAGE_ACCESS_KEY='{}'")),
    "json password": (
        _human,
        ('{{"username":"svc","password":"{}"}}', '{{"db": {{"passwd": "{}"}}}}', '{{"pwd": "{}"}}'),
    ),
    "json secret": (
        _token,
        ('{{"client_secret": "{}"}}', '{{"apiKey":"{}"}}', '{{"access_token": "{}", "expires_in": 3600}}'),
    ),
    "yaml": (_human, ("auth:\n  user: svc\n  password: {}", "smtp_password: '{}'", '  password: "{}"  # change')),
    "ini": (_generated, ("[client]\nuser = svc\npassword = {}", "secret_key = {}", "aws_secret_access_key = {}")),
    "python": (_human, ('login("svc", password="{}")', "PASSWORD = '{}'", 'cfg["password"] = "{}"')),
    "javascript": (_token, ('const secretKey = "{}";', "apiKey: '{}',", "process.env.API_KEY = '{}'")),
    "java": (_human, ('ds.setPassword("{}");', "spring.datasource.password={}", 'String password = "{}";')),
    "command line": (
        _human,
        ("app --user svc --password {}", "mysqldump -u root -p{} shop", "sshpass -p '{}' ssh web1"),
    ),
    "command token": (_token, ("deploy --token {} --yes", "tool login --api-key={}", "gh auth --secret {}")),
    "curl user": (_human, ("curl -u svc:{} https://acme.io/api", "curl --user 'svc:{}' https://acme.io")),
    "connection string": (
        _generated,
        ("Server=tcp:x;Database=d;User ID=sa;Password={};", "host=db;uid=svc;pwd={};port=1"),
    ),
    "netrc": (_human, ("machine acme.io login svc password {}",)),
    "prose password": (
        _human,
        (
            "The password is {}",
            "the wifi password at the office is {}, enjoy",
            "my new password is {} so you can log in",
            "password for the NAS: {}",
            "I set the admin password to {} yesterday",
            "Log in with user svc and password {}.",
        ),
    ),
    "prose key": (_token, ("our API key is {}", "the token for staging: {}", "use this secret: {}")),
    "pin": (lambda rng: str(rng.randrange(1000, 9999)), ("the door PIN is {}", "PIN: {}")),
    "xml": (_human, ("<password>{}</password>", "<db:password>{}</db:password>")),
    "sql": (_human, ("ALTER USER svc WITH PASSWORD '{}';", "CREATE USER svc IDENTIFIED BY '{}';")),
    "query string": (_hex32, ("GET /v1/x?api_key={}&y=1", "https://acme.io/cb?access_token={}")),
    "aws secret key": (
        shape((BASE64, 40)),
        ("AWS_SECRET_ACCESS_KEY={}", '"SecretAccessKey": "{}"', "aws configure set aws_secret_access_key {}"),
    ),
    "jwk": (
        shape((WORD, 43)),
        ('{{"kty":"EC","crv":"P-256","x":"abc","d":"{}"}}', '{{"kty": "oct", "k": "{}", "alg": "HS256"}}'),
    ),
    "named service": (_hex32, ("DATADOG_API_KEY={}", "twilio auth token {}", "mailgun signing key: {}")),
}
"""Secrets without a shape of their own: only what stands around them tells."""


def _luhn_digit(number: str) -> str:
    total = sum(sum(divmod(2 * int(c), 10)) if place % 2 == 0 else int(c) for place, c in enumerate(reversed(number)))
    return str(-total % 10)


def _card(rng: Random) -> str:
    first, length = rng.choice(
        [("4", 16), ("51", 16), ("55", 16), ("34", 15), ("37", 15), ("6011", 16), ("3530", 16), ("36", 14)]
    )
    number = first + "".join(rng.choices(DIGITS, k=length - len(first) - 1))
    number += _luhn_digit(number)
    gap = rng.choice(["", " ", "-"]) if length == 16 else ""
    return gap.join(number[at : at + 4] for at in range(0, length, 4)) if gap else number


def _iban(rng: Random) -> str:
    country, length, bank = rng.choice(
        [("DE", 18, ""), ("GB", 14, "WEST"), ("FR", 23, ""), ("NL", 10, "ABNA"), ("ES", 20, "")]
    )
    account = bank + "".join(rng.choices(DIGITS, k=length))
    remainder = int("".join(str(int(c, 36)) for c in account + country + "00")) % 97
    number = f"{country}{98 - remainder:02}{account}"
    return number if rng.random() < 0.5 else " ".join(number[at : at + 4] for at in range(0, len(number), 4))


def _email(rng: Random) -> str:
    first, last = rng.choice(PEOPLE).lower().split()
    local = rng.choice(
        [f"{first}.{last}", f"{first[0]}{last}{rng.randrange(99)}", f"{first}+{last}", f"{last}_{first}"]
    )
    host = rng.choice(["acme", "mail.globex", "initech", "uni-hall"])
    return f"{local}@{host}.{rng.choice(['com', 'io', 'co.uk', 'de', 'org'])}"


def _phone(rng: Random) -> str:
    def n(length: int) -> str:
        return "".join(rng.choices("123456789", k=length))

    return rng.choice(
        [
            f"+1 {rng.randint(201, 799)} {n(3)} {n(4)}",
            f"({rng.randint(201, 799)}) {n(3)}-{n(4)}",
            f"{rng.randint(201, 799)}-{n(3)}-{n(4)}",
            f"+44 20 {n(4)} {n(4)}",
            f"+49 30 {n(7)}",
            f"+33 6 {n(2)} {n(2)} {n(2)} {n(2)}",
            f"07{n(3)} {n(6)}",
            f"+91-{n(5)}-{n(5)}",
        ]
    )


def _ip(rng: Random) -> str:
    if rng.random() < 0.2:
        return "2a0" + ":".join(f"{rng.randrange(0x1000, 0xFFFF):x}" for _ in range(8))[3:]
    first = rng.choice([41, 62, 77, 81, 94, 145, 188, 213])
    return f"{first}.{rng.randrange(64, 250)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


def _ssn(rng: Random) -> str:
    return f"{rng.randint(100, 665)}-{rng.randint(10, 99)}-{rng.randint(1000, 9999)}"


def _nino(rng: Random) -> str:
    pairs = " ".join(str(rng.randint(10, 99)) for _ in range(3))
    return f"{rng.choice(['AB', 'JK', 'PW', 'SR'])} {pairs} {rng.choice('ABCD')}"


def _cpf(rng: Random) -> str:
    n = [rng.randrange(10) for _ in range(9)]
    for _ in range(2):
        n.append(sum((len(n) + 1 - place) * digit for place, digit in enumerate(n)) * 10 % 11 % 10)
    text = "".join(map(str, n))
    return f"{text[:3]}.{text[3:6]}.{text[6:9]}-{text[9:]}"


def _dni(rng: Random) -> str:
    number = rng.randrange(10**7, 10**8)
    return f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


PERSONAL: Mapping[str, tuple[Make, Sequence[str]]] = {
    "card": (_card, ("my card is {}, expires 04/29", "charge {} for the order", '{{"pan": "{}"}}')),
    "iban": (_iban, ("wire it to {} please", "IBAN: {}", "account {} was closed")),
    "email": (_email, ("write to {} about it", "From: Bob <{}>", "{} did not answer", 'user="{}" failed')),
    "phone": (_phone, ("call me at {}", "Phone: {}", "my number is {}, after six", "{} is her mobile")),
    "ip": (_ip, ("login from {} failed", "client {} banned for an hour", "ip={} status=403")),
    "us-ssn": (_ssn, ("her SSN is {}", "social security number {}", "SSN: {}")),
    "uk-nino": (_nino, ("NI number {}", "national insurance: {}")),
    "br-cpf": (_cpf, ("CPF {}", "o CPF dele é {}")),
    "es-dni": (_dni, ("DNI {}", "con DNI {} en Madrid")),
}
"""Structured personal data with valid checksums, and sentences for it."""


def secrets(seed: int, rounds: int) -> Iterator[Sample]:
    """Yield every provider's format in every context, then every place; labelled `provider:…` or `place:…`."""
    rng = Random(f"secrets {seed}")  # noqa: S311  # made-up secrets, the same ones every time
    for name, make in PROVIDERS.items():
        for context, templates in CONTEXTS.items():
            for _ in range(rounds):
                value = make(rng)
                shown = json.dumps(value)[1:-1] if context in ("json", "code") else value
                yield _filled(rng.choice(templates), shown, f"provider:{name}", context)
    for name, (make, templates) in PLACES.items():
        for template in templates:
            for _ in range(rounds):
                yield _filled(template, make(rng), f"place:{name}", "place")


def personal(seed: int, rounds: int) -> Iterator[Sample]:
    """Yield every kind of personal data in every sentence, so many of each."""
    rng = Random(f"personal {seed}")  # noqa: S311  # made-up secrets, the same ones every time
    for name, (make, templates) in PERSONAL.items():
        for template in templates:
            for _ in range(rounds):
                yield _filled(template, make(rng), f"personal:{name}", "generated")


def _filled(template: str, value: str, type: str, source: str) -> Sample:
    text = template.format(value)
    start = text.index(value)
    return Sample(text, (Label(start, start + len(value), type),), source)


def look_alikes(seed: int, rounds: int) -> Iterator[Sample]:
    """Yield hashes, ids, vectors, images, placeholders, versions, code and talk about passwords: nothing to redact."""
    rng = Random(f"look-alikes {seed}")  # noqa: S311  # made-up secrets, the same ones every time
    for _ in range(rounds):
        data = str(rng.random()).encode()
        sha1, sha256 = hashlib.sha1(data, usedforsecurity=False).hexdigest(), hashlib.sha256(data).hexdigest()
        number, small = rng.randrange(10**6), rng.randrange(20)
        for text in (
            f"reverted {sha1[:10]} because of {sha1}",
            f"digest: sha256:{sha256}",
            f"checksum {hashlib.md5(data, usedforsecurity=False).hexdigest()} does not match",
            f"integrity sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}",
            f"trace {_uuid(rng)} span {sha1[:16]}",
            f"order {pick(rng, '0123456789ABCDEFGHJKMNPQRSTVWXYZ', 26)} was shipped",
            f"embedding = {[round(rng.gauss(0, 1), 6) for _ in range(16)]}",
            f"<img src='data:image/png;base64,iVBORw0KGgo{pick(rng, BASE64, rng.randrange(120, 400))}'>",
            f'etag W/"{sha1[:20]}" is stale',
            f"version 2.{small}.{number % 97}.{number % 13} of the agent",
            f"took {rng.random() * 100:.15f} ms for {number} rows",
            f"epoch {rng.randrange(1_600_000_000, 1_800_000_000)}{rng.randrange(1000):03} is in the log",
            f"build {rng.randrange(2020, 2027)}-0{rng.randrange(1, 9)}-1{rng.randrange(9)}.{number} passed",
            f"ping 10.{small}.0.{small + 1} and 192.168.{small}.{number % 250} answered",
            f"see http://127.0.0.1:{8000 + small}/docs or http://localhost:{8000 + small}",
            f"git clone git@github.com:acme/repo-{number}.git",
            f"mail user{number}@example.com in the tests",
            f"ssh deploy@web{small}.acme.io uptime",
            f"icon@{small + 1}x.png and pkg@{small}.2.{number % 9} are files",
            f"ISBN 978-0-{rng.randrange(10, 99)}-{rng.randrange(100000, 999999)}-{small % 10} on the shelf",
            f"ticket 2026-{number:06} has {number:,} views",
            f"range {number}-{number + 4000} of shard {small}",
            f"matrix [[{number} {number + 1} {number + 2}] [{small} {small + 1} {small + 2}]]",
            f"lat 48.{rng.randrange(10**6):06}, lon 11.{rng.randrange(10**6):06}",
            f"blk_{rng.randrange(10**18, 9 * 10**18)} replicated",
            f"pid {number} mac 00:1b:44:11:3a:{small:02x}",
            f"token usage: {number} prompt tokens, {small} cached",
            f"export API_KEY=${{API_KEY}} PASSWORD=<your-password> TOKEN=xxxxxxxx{small}",
            f"password = getpass.getpass('step {small}: ')",
            f"self.token = tokens[{small}].next_token(key={small})",
            f"assert user.password_hash != old_hash, 'round {small}'",
            f"def reset_password_{small}(user, token=None): return user.set_password(generate())",
        ):
            yield Sample(text, (), "look-alikes")
    for who in ("The", "My", "Their", "Our team's", "An admin"):
        for what in (
            "password",
            "passphrase",
            "API key",
            "access token",
            "client secret",
            "private key",
            "phone number",
        ):
            for how in (
                "is kept in the vault, ask Dana.",
                "was rotated in March after the audit",
                "must be at least 14 characters and have 3 digits",
                "is required by section 4.2.1 of the policy",
                "expired 30 days ago; request another one",
                "does not belong into a memory",
                "field is hidden when AUTH_MODE=oauth2",
            ):
                yield Sample(f"{who} {what} {how}", (), "look-alikes")


def source_lines(limit: int) -> Iterator[Sample]:
    """Yield lines of this Python's standard library, from files spread over it."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    lines = 0
    for file in files[::2]:
        for line in file.read_text("utf-8", "replace").splitlines():
            if line.strip() and lines < limit:
                lines += 1
                yield Sample(line, (), "standard library")
