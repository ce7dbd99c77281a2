"""The redactor removes secrets, keeps what is none, and leaves everything else unchanged.

No secret is written here: key-shaped strings are made at run time, so that secret scanners do not report them.
"""

from __future__ import annotations

import asyncio
import email.message
import ftplib
import hashlib
import http.cookies
import imaplib
import inspect
import json
import poplib
import random
import secrets as stdlib_secrets
import smtplib
import string
import tokenize
import typing
import urllib.request
import uuid
import zipfile
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import InvalidInput
from engram.ports import Redactor
from engram.privacy import SecretRedactor, clean_json
from engram.privacy.rules import rule_set

REDACTOR = SecretRedactor()

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM = LOWER + UPPER + DIGITS
WORD = ALNUM + "_-"
HEX = DIGITS + "abcdef"
BASE32 = UPPER + "234567"
BASE64 = ALNUM + "+/"

BEGIN, END = ("-----" + edge + " {}PRIVATE" + " KEY-----" for edge in ("BEGIN", "END"))

Make = Callable[[random.Random], str]


def pick(rng: random.Random, alphabet: str, length: int) -> str:
    # A digit and a letter in fixed places: real keys of these lengths practically always have both.
    body = [rng.choice(alphabet) for _ in range(length)]
    for place, kind in ((1, DIGITS), (length // 2, DIGITS), (length // 3, UPPER), (length - 2, LOWER)):
        if set(kind) & set(alphabet) and length >= 8:
            body[place] = rng.choice(sorted(set(kind) & set(alphabet)))
    return "".join(body)


def shape(*parts: str | tuple[str, int]) -> Make:
    """Return a generator of keys: literal parts, and (alphabet, length) parts at random."""
    return lambda rng: "".join(p if isinstance(p, str) else pick(rng, *p) for p in parts)


def jwt(rng: random.Random) -> str:
    return "ey" + "J" + ".ey".join([pick(rng, WORD, 20), "J" + pick(rng, WORD, 60)]) + "." + pick(rng, WORD, 43)


def pem(rng: random.Random) -> str:
    kind = rng.choice(["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""])
    lines = [pick(rng, BASE64, 64) for _ in range(6)]
    return "\n".join([BEGIN.format(kind), *lines, END.format(kind)])


def discord(rng: random.Random) -> str:
    first = rng.choice("MNO") + rng.choice("DTjz") + rng.choice("AEIMQUYcgk") + rng.choice("wxyz012345")
    return f"{first}{pick(rng, ALNUM, 20)}.{pick(rng, WORD, 6)}.{pick(rng, WORD, 38)}"


PROVIDERS: dict[str, Make] = {
    "aws-access-key": shape("AK" + "IA", (BASE32, 16)),
    "aws-temporary-key": shape("AS" + "IA", (BASE32, 16)),
    "github-personal": shape("gh" + "p_", (ALNUM, 36)),
    "github-oauth": shape("gh" + "o_", (ALNUM, 36)),
    "github-user": shape("gh" + "u_", (ALNUM, 36)),
    "github-server": shape("gh" + "s_", (ALNUM, 36)),
    "github-refresh": shape("gh" + "r_", (ALNUM, 36)),
    "github-fine-grained": shape("github" + "_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "gitlab": shape("gl" + "pat-", (WORD, 20)),
    "slack-bot": shape("xo" + "xb-", (DIGITS, 12), "-", (DIGITS, 12), "-", (ALNUM, 24)),
    "slack-user": shape("xo" + "xp-", (DIGITS, 12), "-", (DIGITS, 12), "-", (HEX, 32)),
    "slack-app": shape("xa" + "pp-1-A", (UPPER, 10), "-", (DIGITS, 13), "-", (HEX, 64)),
    "stripe-live": shape("sk" + "_live_", (ALNUM, 24)),
    "stripe-restricted": shape("rk" + "_live_", (ALNUM, 24)),
    "stripe-test": shape("sk" + "_test_", (ALNUM, 24)),
    "stripe-webhook": shape("wh" + "sec_", (ALNUM, 32)),
    "openai": shape("sk" + "-", (ALNUM, 48)),
    "openai-project": shape("sk" + "-proj-", (WORD, 120)),
    "deepseek": shape("sk" + "-", (HEX, 32)),
    "anthropic": shape("sk" + "-ant-api03-", (WORD, 93), "AA"),
    "google-api": shape("AI" + "za", (WORD, 35)),
    "google-oauth-secret": shape("GOC" + "SPX-", (WORD, 28)),
    "google-oauth-token": shape("ya" + "29.", (WORD, 120)),
    "huggingface": shape("h" + "f_", (ALNUM, 34)),
    "groq": shape("gs" + "k_", (ALNUM, 52)),
    "xai": shape("xa" + "i-", (ALNUM, 80)),
    "openrouter": shape("sk" + "-or-v1-", (HEX, 64)),
    "langsmith": shape("ls" + "v2_pt_", (HEX, 32), "_", (HEX, 10)),
    "pinecone": shape("pc" + "sk_", (ALNUM, 6), "_", (ALNUM, 60)),
    "tavily": shape("tv" + "ly-", (ALNUM, 32)),
    "replicate": shape("r" + "8_", (ALNUM, 37)),
    "figma": shape("fi" + "gd_", (WORD, 40)),
    "discord": discord,
    "docker": shape("dc" + "kr_pat_", (WORD, 27)),
    "npm": shape("np" + "m_", (ALNUM, 36)),
    "pypi": shape("py" + "pi-AgEIcHlwaS5vcmc", (WORD, 100)),
    "sendgrid": shape("S" + "G.", (WORD, 22), ".", (WORD, 43)),
    "twilio": shape("S" + "K", (HEX, 32)),
    "mailgun": shape("ke" + "y-", (HEX, 32)),
    "mailgun-new": shape((HEX, 32), "-", (HEX, 8), "-", (HEX, 8)),
    "telegram": shape((DIGITS, 10), ":A" + "A", (WORD, 33)),
    "digitalocean": shape("do" + "p_v1_", (HEX, 64)),
    "databricks": shape("da" + "pi", (HEX, 32)),
    "heroku": shape("HR" + "KU-AA", (WORD, 58)),
    "shopify": shape("sh" + "pat_", (HEX, 32)),
    "square": shape("sq" + "0atp-", (WORD, 22)),
    "linear": shape("li" + "n_api_", (ALNUM, 40)),
    "notion": shape("nt" + "n_", (ALNUM, 46)),
    "notion-old": shape("sec" + "ret_", (ALNUM, 43)),
    "vault": shape("hv" + "s.", (WORD, 90)),
    "age": shape("AGE-SEC" + "RET-KEY-1", (UPPER + DIGITS, 58)),
    "nats": shape("S" + "U", (BASE32, 56)),
    "mem0": shape("m" + "0-", (ALNUM, 40)),
    "engram": shape("en" + "g_", (ALNUM, 32)),
    "new-relic": shape("NR" + "AK-", (UPPER + DIGITS, 27)),
    "atlassian": shape("ATA" + "TT3", (WORD, 180)),
    "azure-storage": shape((BASE64, 86), "=="),
    "jwt": jwt,
    "pem": pem,
}

CONTEXTS: dict[str, Callable[[str], str]] = {
    "chat": lambda key: f"Sure, here it is: {key} - tell me when it works, please.",
    "env": lambda key: f"DEBUG=1\nSERVICE_THING={key}\nPORT=8080\n",
    "json": lambda key: json.dumps({"id": 7, "config": {"thing": key, "retries": 3}}),
    "code": lambda key: f'client = Client("{key}", timeout=30)  # see docs\n',
    "log": lambda key: f"2026-03-01T12:00:00Z INFO worker[17] using {key} for upstream eu-1",
    "curl": lambda key: f"curl -s -X POST https://api.host.io/v1/items -H 'X-Thing: {key}' -d '{{}}'",
}

HUMAN = "!@#$%^*+"
WORDS = ["river", "Falcon", "copper", "Monday", "orange", "tiger", "Summer", "rocket", "velvet", "Winter"]


def human(rng: random.Random) -> str:
    return rng.choice(WORDS) + rng.choice(HUMAN) + rng.choice(WORDS) + str(rng.randrange(10, 9999))


def leet(rng: random.Random) -> str:
    return rng.choice(WORDS) + str(rng.randrange(2, 99)) + rng.choice("!#$")


def generated(rng: random.Random) -> str:
    return pick(rng, ALNUM + "!@#$%^*-_", rng.randrange(12, 24))


def hexkey(rng: random.Random) -> str:
    return pick(rng, HEX, 32)


def aws_secret(rng: random.Random) -> str:
    return pick(rng, BASE64, 40)


# Secrets without a shape of their own: only what stands around them tells.
PLACES: dict[str, tuple[Make, str]] = {
    "aws secret, env": (aws_secret, "AWS_SECRET_ACCESS_KEY={}"),
    "aws secret, ini": (aws_secret, "[default]\naws_secret_access_key = {}\nregion = eu-west-1"),
    "aws secret, json": (aws_secret, '{{"SecretAccessKey": "{}", "Version": 1}}'),
    "postgres url": (generated, "DATABASE_URL=postgresql://app:{}@db.internal:5432/prod"),
    "redis url": (hexkey, "connect to redis://:{}@cache:6379/0 please"),
    "mongo url": (human, "mongodb+srv://root:{}@cluster0.mongodb.net/test"),
    "https url": (generated, "git clone https://bob:{}@git.internal/team/app.git"),
    "amqp url": (leet, 'broker = "amqp://guest2:{}@rabbit:5672//"'),
    "ado": (generated, "Server=db1;Database=crm;User Id=sa;Password={};Encrypt=true"),
    "odbc": (human, "Driver={{ODBC Driver 18}};Server=x;Uid=sa;Pwd={};"),
    "azure": (aws_secret, "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==;EndpointSuffix=x"),
    "bearer": (hexkey, "Authorization: Bearer {}"),
    "bearer, curl": (generated, 'curl -H "Authorization: Bearer {}" https://api.host.io'),
    "bearer, json": (hexkey, '{{"headers": {{"Authorization": "Bearer {}"}}}}'),
    "basic": (aws_secret, "Authorization: Basic {}="),
    "cookie": (hexkey, "Cookie: theme=dark; sessionid={}; lang=en"),
    "set-cookie": (generated, "Set-Cookie: connect.sid={}; Path=/; HttpOnly"),
    "x-api-key": (hexkey, "-H 'X-Api-Key: {}'"),
    "curl -u": (generated, "curl -u admin:{} https://host.io/api"),
    "curl --user": (human, "curl --user 'bob:{}' https://host.io/api"),
    "sshpass": (leet, "sshpass -p {} ssh root@10.0.0.7"),
    "mysql": (generated, "mysql -h db -u root -p{} crm"),
    "--password": (generated, "backup --host db --password {} --verbose"),
    "--token=": (hexkey, "deploy --token={} --env prod"),
    "--api-key": (hexkey, "tool --api-key {} run"),
    "netrc": (leet, "machine host.io login bob password {}"),
    "env password": (generated, "DB_HOST=db\nDB_PASSWORD={}\nDB_PORT=5432"),
    "env password, quoted": (human, 'export ADMIN_PASSWORD="{}"'),
    "env secret": (hexkey, "SECRET_KEY={}\n"),
    "env api key": (hexkey, "WEATHER_API_KEY={}"),
    "env plain word": (lambda rng: rng.choice(WORDS).lower() * 2, "SMTP_PASSWORD={}\nX=1"),
    "json password": (human, '{{"user": "bob", "password": "{}"}}'),
    "json word": (lambda rng: rng.choice(WORDS).lower() * 2, '{{"user": "bob", "password": "{}"}}'),
    "json token": (hexkey, '{{"token": "{}", "ttl": 60}}'),
    "json in json": (generated, '{{"body": "{{\\"password\\": \\"{}\\"}}"}}'),
    "json client secret": (generated, '{{"clientSecret":"{}"}}'),
    "yaml password": (human, "db:\n  user: bob\n  password: {}\n  port: 5432"),
    "yaml api key": (hexkey, "weather:\n  api_key: {}\n"),
    "toml": (generated, 'secret_key = "{}"'),
    "python": (human, "conn = connect(user='bob', password='{}', host='db')"),
    "python, typed": (human, 'password: str = "{}"'),
    "python, subscript": (generated, 'os.environ["DB_PASSWORD"] = "{}"'),
    "javascript": (hexkey, "const apiKey = '{}';"),
    "xml": (human, "<user>bob</user><password>{}</password>"),
    "query": (hexkey, "GET /v1/items?api_key={}&page=2 200"),
    "wifi": (leet, "the wifi password is {}"),
    "wifi, sentence": (human, "By the way, the wifi password is {}. Dinner at eight?"),
    "my password": (human, "my password: {}"),
    "for": (human, "The password for the staging server is {}, do not share it"),
    "with password": (leet, "log in as admin with password {} and check the graphs"),
    "changed": (human, "I changed the password to {} this morning"),
    "quoted prose": (lambda rng: rng.choice(WORDS).lower(), 'the password is "{}"'),
    "pin": (shape((DIGITS, 4)), "The door PIN is {}."),
    "credentials": (human, "credentials: admin / {}"),
    "german": (leet, "Das Passwort ist {}"),
    "api key prose": (hexkey, "our API key is {}, it is on the wiki"),
    "near": (shape((ALNUM, 40)), "Use this key for the weather service {} from now on"),
    "markdown": (human, "- **Password:** {}"),
    "table": (human, "| user | bob |\n| password | {} |"),
    "said before": (leet, "use {} as the password"),
    "user and password": (leet, "ssh to web1, user bob password {} port 22"),
    "sql": (generated, "CREATE USER bob IDENTIFIED BY '{}';"),
    "php": (human, "define('DB_PASSWORD', '{}');"),
    "default": (hexkey, 'os.getenv("SESSION_SECRET", "{}")'),
    "dockerfile": (leet, "FROM x\nENV DB_PASSWORD {}\n"),
    "wifi code": (leet, "WIFI:S:Home;T:WPA;P:{};;"),
    "private key, hex": (shape("0x", (HEX, 64)), "wallet private key: {}"),
    "env key": (hexkey, "export WEATHER_KEY={}"),
    "log": (generated, "2026-03-01 ERROR auth failed user=bob password={} ip=10.0.0.1"),
}
ROUNDS = 20


def leaks(text: str, secret: str) -> bool:
    return secret in REDACTOR.clean([text])[0].text


@pytest.mark.parametrize("name", PROVIDERS)
def test_provider_keys_are_found_everywhere(name: str) -> None:
    rng = random.Random(f"provider {name}")
    keys = [PROVIDERS[name](rng) for _ in range(ROUNDS)]
    wrapped = [(context(key), key) for key in keys for context in CONTEXTS.values()]
    missed = [text for text, key in wrapped if leaks(text, key) or leaks(text, json.dumps(key)[1:-1])]
    assert len(missed) <= 0.02 * len(wrapped), missed[:3]


def test_recall_of_secrets_known_by_their_place() -> None:
    rng = random.Random("places")
    missed: list[str] = []
    for make, template in PLACES.values():
        for _ in range(ROUNDS):
            secret = make(rng)
            text = template.format(secret)
            missed += [text] * leaks(text, secret)
    assert len(missed) <= 0.03 * ROUNDS * len(PLACES), missed[:20]


@pytest.mark.parametrize("name", PLACES)
def test_every_place_is_watched(name: str) -> None:
    make, template = PLACES[name]
    rng = random.Random(f"place {name}")
    caught = 0
    for _ in range(ROUNDS):
        secret = make(rng)
        caught += not leaks(template.format(secret), secret)
    assert caught >= 0.85 * ROUNDS


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_surrounds_a_key_is_unchanged(name: str) -> None:
    key = PROVIDERS[name](random.Random(name))
    for context in CONTEXTS.values():
        before, after = context("@@").split("@@")
        text = REDACTOR.clean([before + key + after])[0].text
        assert text.startswith(before + "[secret:")
        assert text.endswith("]" + after)


def test_two_keys_in_one_text_are_named_in_order() -> None:
    rng = random.Random(1)
    first, second = PROVIDERS["npm"](rng), PROVIDERS["groq"](rng)
    assert REDACTOR.clean([f"{first},{second} and {first}"])[0] == (
        "[secret:npm-token],[secret:groq-key] and [secret:npm-token]",
        ("npm-token", "groq-key"),
    )


def test_the_specific_rule_names_an_overlap() -> None:
    key = PROVIDERS["github-personal"](random.Random(2))
    assert REDACTOR.clean([f'password = "{key}"'])[0].text == 'password = "[secret:github-token]"'


def test_answers_come_in_order_and_none_for_none() -> None:
    assert REDACTOR.clean([]) == []
    assert [c.text for c in REDACTOR.clean(["a", "", "b"])] == ["a", "", "b"]


def test_it_is_a_redactor() -> None:
    assert isinstance(REDACTOR, Redactor)


def test_an_escaped_pem_block_goes_whole() -> None:
    block = pem(random.Random(3)).replace("\n", "\\n")
    assert REDACTOR.clean([f'{{"k": "{block}\\n", "x": 1}}'])[0].text == ('{"k": "[secret:private-key]\\n", "x": 1}')


def test_only_the_password_of_a_url_goes() -> None:
    text = f"postgresql://app:{generated(random.Random(4))}@db.internal:5432/prod?sslmode=require"
    assert REDACTOR.clean([text])[0].text == (
        "postgresql://app:[secret:url-password]@db.internal:5432/prod?sslmode=require"
    )


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("mongosh --host db1 -u admin -p §", "Xq7mmTz91"),
        ("sqlcmd -S tcp:db1 -U sa -P '§'", "Xq7!mmTz91"),
        ("smbclient //fs/share -U jane%§", "Xq7mmTz91"),
        ("lftp -u jane,§ ftp.acme.net", "Xq7mmTz91"),
        ("sqlplus scott/§@//db1:1521/ORCL", "Xq7mmTz91"),
        ("net use Z: //fs/share /user:CORP/jane §", "Xq7mmTz91"),
        ("echo '§' | sudo -S apt update", "Xq7mmTz91"),
        ("requirepass §", "Xq7mmTz91"),
        ("db.acme.net:5432:prod:app:§", "Xq7#mmTz91"),
        ('requests.get(url, auth=("jane", "§"))', "Xq7mmTz91!"),
        ("HTTPBasicAuth('jane', '§')", "Xq7mmTz91!"),
        ('DriverManager.getConnection("jdbc:oracle:thin:@db1:1521:x", "scott", "§")', "Xq7mmTz91!"),
        ('jwt.sign(payload, "§")', "my-jwt-s1gning-Xq7mm"),
        ("La contraseña del servidor es §", "Xq7mmTz91"),
        ("here is the token you wanted: §", "OnOmFGToBZifp89jcgztjyZzxTboDXZP"),
        ("root:§:19000:0:99999:7:::", "$6$" + "Ab3dEf7h" * 2 + "$" + "Ab3dEf7hIj" * 8 + "Ab3dEf"),
        ("admin:§", "$2y$10$" + "Ab3dEf7hIj" * 5 + "Ab3"),
        ("client-key-data: §", "LS0tLS1CRUdJTi" + "BSU0EgUFJJVkFURSBLRVktLS0tLQo" + "Ab3dEf7hIj" * 9),
        ("https://mainnet.infura.io/v3/§", "89ab3266fd31e1e0" * 2),
        ("https://storage.acme.net/k?Expires=1&Signature=§", "sRx4Jk1NrjJb36I2" * 4 + "%3D%3D"),
        ('Account.from_key("§")', "0x" + "d21c9837bb4862d2" * 4),
        ("sonar-scanner -Dsonar.login=§", "squ" + "_" + "e1e37575dc" * 4),
        ("AZURE_DEVOPS_EXT_PAT=§", "fijkjw2mibk5xr75trf5ep57jadkjaob3im6g6lmis5u6bgp5o72"),
    ],
)
def test_secrets_are_known_by_more_than_their_shape(text: str, secret: str) -> None:
    (cleaned,) = REDACTOR.clean([text.replace("§", secret)])
    assert secret not in cleaned.text
    assert cleaned.found
    assert cleaned.text.startswith(text.partition("§")[0][:8])


@pytest.mark.parametrize(
    "text",
    [
        "password: ${PASSWORD}",
        "password: $DB_PASSWORD",
        'api_key = "<your-token>"',
        "token: <your token here>",
        "SECRET=xxxxxxxxxxxx",
        "password = '********'",
        "PASSWORD=changeme",
        "DB_PASSWORD=change-me-please",
        "password: {{ vault_password }}",
        'password = os.environ["DB_PASSWORD"]',
        "token = process.env.GITHUB_TOKEN2",
        "password=self.password1",
        "api_key=get_api_key(1)",
        "password: required",
        "password: str",
        "password: str | None = None",
        "password: SecretStr",
        "password: string;",
        "Password: must be at least 8 characters",
        "the password field is empty",
        "reset your password",
        "the password is required",
        "The password is incorrect!",
        "the password is 12 characters long",
        "my password is not working, what now?",
        "password is hashed with SHA256",
        "the password was changed in 2023",
        "I forgot my password: can you help?",
        "passwords: 10,000 leaked",
        "max_tokens: 4096",
        "token count is 8192",
        "Unexpected token: '}'",
        "primary key: user_id_2",
        "the secret is patience",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "curl -u user:$PASS https://host.io",
        "postgresql://user:password@localhost/db",
        "postgres://user:${PGPASSWORD}@db/app",
        "http://localhost:8080/a@b",
        "usage: tool --password PASSWORD --token TOKEN",
        "pass the --token option",
        "PWD=/home/bob/project-2",
        "PASS: test_login_42",
        "sk-learn-contrib-and-other-packages",
        "def test_password_reset_token_v2_is_sent_once(): ...",
        "[secret:password] and password: [secret:password]",
        "-----BEGIN PUBLIC KEY-----",
        "task-based-scheduling-in-2024-with-workers",
        '{"password": {"type": "string", "minLength": 8}}',
        "Bearer authentication is described in RFC6750",
        "basic understanding of electromagnetism",
        "Cookie: the best recipe",
        "Culture=neutral, PublicKeyToken=b77a5c561934e089",
        "host key fingerprint is SHA256:" + "Ab3dEf7hIj" * 4 + "Ab3",
        "add my public key ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA" + "Ab3dEf7hIj" * 4,
        "secretName: db-credentials-v2",
        "secret: db-credentials-v2",
        "kubectl get secret my-app-tls-2024 -o yaml",
        "print(f'password={password!r}')",
        "scrypt(b'password', b'salt')",
        "'pass', 'raise', 'return', 'while'",
        "def login(self, user: str, password: str) -> None: ...",
        "auth=('read', 'write')",
        "HTTPBasicAuth('user', 'password')",
        "jwt.decode(token, 'secret', algorithms=['HS256'])",
        "mongod --port 27017 --dbpath /srv/mongodb/db0",
        "echo $PW | sudo -S ls",
        "sqlplus / as sysdba",
        "requirepass is a setting of redis",
        "hashes that begin with $2b$12$ or $argon2id$v=19$m=65536,t=3,p=4",
        "fe80:5432:abcd:ef01:2345",
        "cache key = ThisIsTheVeryLongCamelCaseName1",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA7x\n-----END PUBLIC KEY-----",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert REDACTOR.clean([text])[0] == (text, ())


def look_alikes() -> list[str]:
    rng = random.Random("look-alikes")
    result = []
    for _ in range(150):
        seed = str(rng.random()).encode()
        vector = [round(rng.uniform(-1, 1), 6) for _ in range(24)]
        image = pick(rng, BASE64, rng.randrange(200, 900))
        result += [
            f"commit {hashlib.sha1(seed).hexdigest()} fixes the token bucket",
            f"sha256:{hashlib.sha256(seed).hexdigest()}",
            f"the digest of the key file is {hashlib.sha256(seed).hexdigest()}",
            f"md5 = {hashlib.md5(seed).hexdigest()}  secrets.txt",
            f"request {uuid.UUID(int=rng.getrandbits(128))} failed after the auth step",
            f"id={pick(rng, '0123456789ABCDEFGHJKMNPQRSTVWXYZ', 26)} key rotated",
            f"memory {pick(rng, '0123456789abcdefghjkmnpqrstvwxyz', 26)} mentions the token",
            f"key vector: {vector}",
            f"data:image/png;base64,{image}",
            f"upgrade auth-lib to {rng.randrange(9)}.{rng.randrange(40)}.{rng.randrange(40)}",
            f"at {rng.randrange(24):02}:{rng.randrange(60):02} the password prompt hung for {rng.randrange(90)}s",
            f"tokens: {rng.randrange(100_000)}, cost {rng.random():.4f}",
            f"GET /login/password?step={rng.randrange(9)} 200 {rng.randrange(9999)}",
            f"key-{rng.randrange(10_000)} and token_{rng.randrange(100)} are table names",
        ]
    for who, what, how in (
        (who, what, how)
        for who in ("The", "My", "Your", "Our admin", "Each user's", "A")
        for what in ("password", "passphrase", "API key", "token", "secret", "credential")
        for how in (
            "is stored in the vault.",
            "was rotated last week!",
            "must have 12 characters, 2 digits and 1 symbol",
            "is wrong: try again in 5 minutes",
            "expires in 30 days (see RFC-2119)",
            "policy: minimum length 14",
            "can be reset at https://host.io/reset?lang=en",
            "for staging is the same as for production",
            "field: required, type: string",
            "is hashed with PBKDF2-SHA256 and 600000 rounds",
        )
    ):
        result.append(f"{who} {what} {how}")
    return result


def stdlib_lines() -> list[str]:
    modules: list[ModuleType] = [
        *(asyncio.base_events, email.message, ftplib, http.cookies, imaplib, inspect, poplib, random),
        *(smtplib, stdlib_secrets, tokenize, typing, urllib.request, uuid, zipfile),
    ]
    return [line for module in modules for line in inspect.getsource(module).splitlines() if line.strip()]


def test_false_alarms_on_look_alikes() -> None:
    texts = look_alikes()
    alarms = [c for c in REDACTOR.clean(texts) if c.found]
    assert len(texts) >= 2000
    assert len(alarms) <= 0.001 * len(texts), alarms[:20]


def test_false_alarms_on_source_code() -> None:
    texts = stdlib_lines()
    # Authors have left their addresses in the source, and these are found rightly.
    alarms = [c for c in REDACTOR.clean(texts) if set(c.found) - {"personal:email"}]
    assert len(texts) >= 5000
    assert len(alarms) <= 0.001 * len(texts), alarms[:20]


SNIPPETS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            *("password", "token", "secret", "api_key", "[secret:", "[secret:x]", "]", ": ", "=", '"', "'"),
            *("\\n", "https://", "bob:", "@", "Bearer ", "Cookie: a=", "--password ", " is ", "hunter", "2!"),
            *(BEGIN.format(""), END.format("RSA "), "PASSWORD=", "\n", " "),
            *("the password is ", "curl -u bob:", ";Pwd=", "<token>"),
        ]
    ),
    st.builds(
        lambda name, seed: PROVIDERS[name](random.Random(seed)), st.sampled_from(sorted(PROVIDERS)), st.integers()
    ),
    st.integers().map(lambda seed: human(random.Random(seed))),
)
TEXTS = st.lists(SNIPPETS, max_size=12).map("".join)


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = REDACTOR.clean([text])[0]
    assert REDACTOR.clean([once.text])[0] == (once.text, ())


@given(st.text(st.characters(exclude_categories=()), max_size=80))
@settings(deadline=None)
def test_any_text_is_answered(text: str) -> None:
    once = REDACTOR.clean([text, "\x00" + text + "\ud800"])
    assert [bool(c.found) or c.text == t for c, t in zip(once, [text, "\x00" + text + "\ud800"], strict=True)]


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="-_+/=~.")).filter(lambda t: not t or not t[-1].isalnum()),
    st.text(st.characters(codec="utf-8")).filter(lambda t: not t or not (t[0].isalnum() or t[0] in "-_+/=~.")),
    st.integers(),
)
@settings(deadline=None)
def test_surrounding_text_is_unchanged(before: str, after: str, seed: int) -> None:
    key = PROVIDERS["github-personal"](random.Random(seed))
    assert REDACTOR.clean([before + key + after])[0].text == f"{before}[secret:github-token]{after}"


@pytest.mark.parametrize("unstorable", ["\ud800", "\x00", "\udfff\ud800"])
def test_unstorable_text_is_cleaned_and_otherwise_kept(unstorable: str) -> None:
    key = PROVIDERS["groq"](random.Random(5))
    assert REDACTOR.clean([f"{unstorable}{key} {unstorable}"])[0].text == f"{unstorable}[secret:groq-key] {unstorable}"


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "password=", "password: token: ", "sk-", "://a:", "eyJ.", BEGIN.format("") + "a"),
        *("password is ", "key ", "[secret:x]", "Cookie: a=", "curl -u a", "PASSWORD=abc1 ", "'\"", "\\n"),
        *("=A9", "é ", "password for a ", "password=a1&", "password='a.", "(((((", "secret=a1b2c3d4,"),
    ],
)
def test_a_megabyte_of_anything_is_answered(unit: str) -> None:
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    assert len(REDACTOR.clean([text])) == 1


def test_json_is_cleaned_in_keys_and_values() -> None:
    rng = random.Random(6)
    one, two, three = (PROVIDERS["npm"](rng) for _ in range(3))
    value, found = clean_json(REDACTOR, {"a": [one, 1, None, True, 1.5], two: "x", three: "y"})
    assert value == {
        "a": ["[secret:npm-token]", 1, None, True, 1.5],
        "[secret:npm-token]": "x",
        "[secret:npm-token] (2)": "y",
    }
    assert found == ("npm-token",)
    assert clean_json(REDACTOR, value) == (value, ())


@pytest.mark.parametrize(
    "key", ["password", "DB_PASSWORD", "apiKey", "api-key", "client_secret", "token", "Authorization", "Passwort"]
)
def test_a_key_tells_what_its_value_does_not(key: str) -> None:
    for value in ("hunterhunter", "my little dog", "4711"):
        assert clean_json(REDACTOR, {key: value}) == ({key: "[secret:keyed-value]"}, ("keyed-value",))
    assert clean_json(REDACTOR, {key: ["one more"]})[0] == {key: ["[secret:keyed-value]"]}


@pytest.mark.parametrize(
    "value",
    [
        {"password": ""},
        {"password": None, "token": 7, "secret": True},
        {"password": "${DB_PASSWORD}", "token": "<your-token>", "api_key": "[secret:x]"},
        {"password": "required", "type": "string"},
        {"max_tokens": "many", "key": "value", "password_hash": "abc", "token_type": "jwt", "author": "bob"},
        {"password": {"type": "field", "label": "hunter"}},
        {"name": "city", "value": "Rome"},
        {"token": " the", "logprob": -0.1},
        ["--verbose", "hunter"],
    ],
)
def test_harmless_json_stays(value: typing.Any) -> None:
    assert clean_json(REDACTOR, value) == (value, ())


def test_the_name_of_a_value_may_stand_beside_it() -> None:
    assert clean_json(REDACTOR, [{"name": "DB_PASSWORD", "value": "hunter"}])[0] == [
        {"name": "DB_PASSWORD", "value": "[secret:keyed-value]"}
    ]
    assert clean_json(REDACTOR, ["login", "--password", "hunter", "-v"])[0] == [
        *("login", "--password", "[secret:keyed-value]", "-v")
    ]


def test_json_depth_is_bounded() -> None:
    value: typing.Any = "x"
    for _ in range(32):
        value = [value]
    assert clean_json(REDACTOR, value) == (value, ())
    with pytest.raises(InvalidInput, match="32 levels"):
        clean_json(REDACTOR, {"a": value})


@pytest.mark.parametrize("value", [{"a": b"bytes"}, {1: "a"}, [object()]])
def test_what_is_not_json_is_refused(value: typing.Any) -> None:
    with pytest.raises(InvalidInput, match="convert it first"):
        clean_json(REDACTOR, value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["password", "note", "token", "value", "name"]) | TEXTS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=100, deadline=None)
def test_cleaning_json_twice_changes_nothing_more(value: typing.Any) -> None:
    once, _ = clean_json(REDACTOR, value)
    assert clean_json(REDACTOR, once) == (once, ())


def test_rules_are_complete() -> None:
    for rule in rule_set().rules:
        assert rule.description
        assert set(rule.id) <= set(LOWER + DIGITS + "-")
        assert "{{" not in rule.regex.replace(r"\{\{", "")
