"""Kinds of work that the learner may be developed on."""

from __future__ import annotations

from engram_bench.advice.kinds import KindOfWork, errands, lines, situation

SOFTWARE = KindOfWork(
    "software team",
    (
        situation(
            "payment provider limits our requests",
            "stripe | production | incident",
            """
            0.92 wait with exponential backoff and an idempotency key
            0.50* retry the request at once
            0.15 restart the service
            0.10 raise the timeout to 60 seconds
            """,
            """
            Stripe answers 429 for charge {id}
            too many requests from the payment API, order {id} stuck
            billing-worker: RateLimitError: Request rate limit exceeded req_{hex}
            checkout is being throttled by our card processor again
            {name} says customers can't pay, provider tells us to slow down
            we hit the quota of the charges endpoint at {time}
            PSP throttling, {n} payments waiting
            http 429 in capture job {id}, Retry-After: {n}
            """,
        ),
        situation(
            "payment request times out",
            "stripe | production | bug",
            """
            0.90 look up the charge by its idempotency key before sending anything
            0.52* retry the request at once
            0.30 wait with exponential backoff and an idempotency key
            0.12 mark the order as paid by hand
            """,
            """
            capture for order {id} timed out after {n}s, unclear whether it went through
            no answer from the card processor, connection closed mid-request
            ReadTimeout while creating charge {id}
            customer {name} may have been billed twice, first call never returned
            payment gateway hangs, state of {n} orders unknown
            the POST to /v1/charges never came back
            checkout spinner forever at {time}, money maybe taken
            read timed out. (read timeout={n}) stripe.charge
            """,
        ),
        situation(
            "pod is killed for memory",
            "kubectl | production | incident",
            """
            0.91 take a heap profile and raise the memory limit
            0.48* restart the service
            0.22 roll back to the previous release
            0.08 add another replica
            """,
            """
            {service} OOMKilled, exit code 137
            container of {service} ran out of memory {n} times since {time}
            pod {service}-{hex} last state terminated, reason OOM
            RSS climbs until the kernel kills {service}
            {name}: the {service} keeps dying every {n} minutes, graphs show a sawtooth
            memory leak? {service} eats {n} GB then vanishes
            cgroup limit hit on {host}, process reaped
            k8s evicts {service}, heap at 100%
            """,
        ),
        situation(
            "errors right after a release",
            "kubectl | production | release",
            """
            0.93 roll back to the previous release
            0.50* restart the service
            0.25 write a hotfix on the spot
            0.12 add another replica
            """,
            """
            5xx jumped to {percent} right after {version} of {service} went out
            since the {time} deploy users see error pages
            new build of {service} broke login, {name} shipped it at {time}
            canary {version} unhealthy, old pods fine
            alert: error budget burn, began with rollout {id}
            {service} {version} throws NullPointerException on every request
            after shipping {version} half the traffic fails
            regression in production from today's release train
            """,
        ),
        situation(
            "migration waits for a lock",
            "psql | staging | migration",
            """
            0.90 set a lock timeout and run it in small batches
            0.46* run the migration again
            0.18 kill all connections to the database
            0.28 run it at night
            """,
            """
            ALTER TABLE on {table} hangs, waiting for AccessExclusiveLock
            schema change {id} blocked by a long transaction
            alembic upgrade stuck for {n} minutes on {table}
            LOG: process {id} still waiting for ShareLock on relation {table}
            {name}'s migration never finishes in staging
            ddl blocked behind an idle in transaction session
            adding the column to {table} freezes all writers
            migration job {id}: canceling statement, could not obtain lock
            """,
        ),
        situation(
            "test fails only now and then",
            "pytest | ci | testing",
            """
            0.88 freeze the clock and seed the random numbers in the test
            0.52* run the job again
            0.20 raise the timeout to 60 seconds
            0.10 mark the test as skipped
            """,
            """
            test_{table}_expiry is flaky, red one run in {n}
            CI failed on {hex}, passed when {name} pushed the same commit again
            intermittent assertion in the {table} suite
            job {id} green locally, randomly red on the runner
            tests around midnight fail for no reason
            AssertionError: {n} != {n}, cannot reproduce on my laptop
            that spec again... works every second time
            nightly build unstable: {n} of 50 runs fail in test_{table}
            """,
        ),
        situation(
            "packages cannot be installed in CI",
            "npm | ci | build",
            """
            0.91 npm ci with the committed lock file and a clean cache
            0.50* npm install
            0.24 run the job again
            0.10 npm install --force
            """,
            """
            npm ERR! ERESOLVE could not resolve peer dep of {package}
            build {id} cannot fetch {package}@{version}
            integrity checksum failed for {package} tarball in pipeline
            node_modules broken on the runner since {name} bumped {package}
            dependency step red: lock file out of sync
            EINTEGRITY sha512 mismatch {package}
            pipeline dies before compile, can't get the js libs
            frontend job {id}: missing {package} after dependency update
            """,
        ),
        situation(
            "certificate is about to expire",
            "certbot | production | maintenance",
            """
            0.94 renew through DNS validation and reload the proxy
            0.55* renew with the standalone plugin
            0.15 restart the service
            0.20 switch the clients to plain http
            """,
            """
            TLS cert of {host} expires in {n} days
            browser warns that {host} is not secure, {name} noticed
            x509: certificate has expired or is not yet valid ({host})
            monitoring: ssl days left {n} on {host}
            https broken for partners, chain out of date since {date}
            letsencrypt mail: renewal due for {host}
            handshake failure on {host}, notAfter={date}
            renewal cron did not run, padlock gone on {host}
            """,
        ),
    ),
    notes=lines(
        """
        {name} prefers short pull requests with one change each
        The retrospective is every second Friday at {time}
        Design review for the search page: cards instead of a table
        The office coffee machine is descaled on the first of the month
        {name} is on parental leave until {date}
        Our style guide asks for imperative commit messages
        The offsite is planned in Lisbon, budget {amount}
        The new intern starts on {date}, desk {n}
        """
    ),
    errands=errands(
        """
        plan the sprint that starts on {date} -> rolling plan by story points
        release of the {service} documentation -> rolling update
        order lunch for {n} people -> order from the place around the corner
        onboard {name} to the code base -> pair for two days
        """
    ),
    errors=lines(
        """
        Error: connect ETIMEDOUT {host}:443
        exit status 1
        HTTP 503 Service Unavailable
        still failing after {n} attempts, giving up
        the alert came back at {time}
        """
    ),
    places={
        "service": ("checkout-api", "billing-worker", "search", "notifier", "session-store", "web-gateway"),
        "table": ("orders", "invoices", "sessions", "accounts", "shipments"),
        "package": ("react-dom", "webpack", "lodash", "eslint-config", "vite", "axios"),
    },
)

SUPPORT = KindOfWork(
    "customer support",
    (
        situation(
            "parcel never arrived",
            "zendesk | email | delivery",
            """
            0.91 open a trace with the carrier and send a replacement
            0.50* ask the customer to wait three more days
            0.28 send a voucher
            0.12 explain the terms and conditions
            """,
            """
            order {id} shows as delivered but nothing came
            where is my package?? ordered on {date}
            {name} waits since {n} days for {product}
            tracking stuck at "handed over", customer angry
            lost in transit: {product}, consignment {id}
            "I was home all day and no driver showed up"
            ticket #{id} missing shipment
            courier says dropped at door, buyer says no
            """,
        ),
        situation(
            "item arrived broken",
            "zendesk | email | returns",
            """
            0.93 send a replacement and a prepaid label
            0.52* ask for photos and wait
            0.30 send a voucher
            0.15 explain the terms and conditions
            """,
            """
            {product} came with a cracked casing, order {id}
            glass in pieces when {name} opened the box
            DOA: {product} does not switch on
            customer received damaged goods, wants it sorted before {date}
            "the corner is dented and it rattles"
            ticket #{id}: faulty on arrival
            screen has a big scratch out of the box
            transport damage on {n} units for a business client
            """,
        ),
        situation(
            "charged twice",
            "stripe dashboard | email | billing",
            """
            0.94 refund the duplicate charge at once and confirm in writing
            0.55* ask the customer for a bank statement
            0.22 send a voucher
            0.10 ask the customer to wait three more days
            """,
            """
            two debits of {amount} for one order
            {name} sees the same amount on the card again
            double billing on {date}, subscription {id}
            "why did you take my money two times"
            duplicate transaction {id}/{id}
            ticket #{id} billed x2
            customer paid once, statement lists it twice
            card shows {amount} and again {amount}
            """,
        ),
        situation(
            "cannot sign in",
            "admin console | chat | account",
            """
            0.90 send a magic link and clear the lock on the account
            0.48* ask the customer to reset the password
            0.25 ask the customer to clear the browser cache
            0.12 create a second account
            """,
            """
            {name} is locked out, wrong password {n} times
            login loops back to the start page
            "it says my account does not exist"
            access denied after new phone, 2FA codes rejected
            reset mail never arrives for user {id}
            customer can't get into the portal since {date}
            auth failed: account {id} suspended?
            forgot which address I registered with, please let me in
            """,
        ),
        situation(
            "wants to cancel the subscription",
            "admin console | chat | retention",
            """
            0.87 offer to pause for two months
            0.50* offer a discount of ten percent
            0.20 send a voucher
            0.25 explain the terms and conditions
            """,
            """
            {name} asks how to end the plan
            "please stop my membership by {date}"
            churn risk: account {id} clicked on leave
            customer no longer uses {product}, wants out
            termination request #{id}
            too expensive, going to a competitor next month
            do not renew me again
            downgrade to nothing, says client of {n} years
            """,
        ),
        situation(
            "invoice has the wrong details",
            "stripe dashboard | email | billing",
            """
            0.95 void it and issue a corrected one
            0.50* tell the customer to note it by hand
            0.15 refund the duplicate charge at once and confirm in writing
            0.25 forward it to accounting without comment
            """,
            """
            VAT number missing on bill {id}
            company changed its name, document still shows the old one
            accounts payable of {name} rejects our pdf, address wrong
            need a receipt with a purchase order number
            "your paper says Ltd, we are GmbH"
            tax line on {id} is incorrect, {amount} net
            reissue of the statement from {date} wanted
            ticket #{id} billing address typo
            """,
        ),
        situation(
            "device will not pair",
            "help center | chat | technical",
            """
            0.89 walk through a factory reset and a firmware update
            0.47* tell the customer to switch it off and on
            0.30 send a replacement and a prepaid label
            0.10 ask the customer to clear the browser cache
            """,
            """
            {product} not found in the app, bluetooth blinking
            can't connect my {product} to wifi
            setup hangs at step {n}, light stays orange
            {name} bought {product}, phone doesn't see it
            pairing error E{n} during installation
            "searching for devices..." forever
            ticket #{id} onboarding of hardware fails
            new router, now the {product} is offline
            """,
        ),
    ),
    notes=lines(
        """
        The help desk moves to the third floor on {date}
        {name} speaks Portuguese and Spanish
        Tone of voice: friendly, no exclamation marks
        Survey results are shared every Monday at {time}
        The holiday roster for December is open
        Spring catalogue has {n} new articles
        Quality calls are recorded for training with consent
        """
    ),
    errands=errands(
        """
        write the weekly report for {date} -> fill the template with last week's numbers
        train {name} on the phone system -> shadow a colleague for a day
        book a room for the team meeting at {time} -> take the small room on the second floor
        translate the help page about sizes -> use the approved glossary
        """
    ),
    errors=lines(
        """
        customer wrote again, still not solved
        one star review on {date}
        escalated to the team lead by {name}
        chargeback opened, case {id}
        no reply, ticket reopened
        """
    ),
    places={"product": ("thermostat", "robot vacuum", "smart lamp", "baby monitor", "doorbell", "air purifier")},
)

PIPELINES = KindOfWork(
    "data pipelines",
    (
        situation(
            "source file is late",
            "airflow | production | ingestion",
            """
            0.90 wait on a sensor with a deadline and tell the consumers
            0.50* run the job again
            0.20 load yesterday's file instead
            0.10 skip the partition
            """,
            """
            {feed} drop for {date} not there at {time}
            upstream vendor has not delivered {feed}
            S3KeySensor poking for {feed}/{date} since {n} h
            no such key: landing/{feed}/{date}.csv
            {name} asks why the {feed} table is empty this morning
            partner SFTP silent today
            missing input, {feed} should have come by {time}
            dag {feed}_daily waits for data that never arrives
            """,
        ),
        situation(
            "columns changed at the source",
            "dbt | production | ingestion",
            """
            0.92 map the new columns in the contract and backfill
            0.50* cast everything to text
            0.15 run the job again
            0.28 load yesterday's file instead
            """,
            """
            {feed}: unexpected field "{column}" in header
            vendor renamed {column} without telling anybody
            schema mismatch on {feed}, expected {n} columns
            parser chokes, {column} is a string now
            Compilation Error: column {column} does not exist
            {name}: the export looks different since {date}
            new layout of the {feed} extract breaks staging model
            type of {column} went from int to decimal
            """,
        ),
        situation(
            "rows appear twice",
            "dbt | production | quality",
            """
            0.91 delete the partition and load it again with a merge key
            0.52* add a distinct to the query
            0.12 skip the partition
            0.25 run the job again
            """,
            """
            uniqueness test failed on {feed}.{column}, {n} dupes
            revenue doubled on the dashboard for {date}
            {feed} counted two times after the rerun
            got {n} results, configured to fail if != 0: unique_{feed}_{column}
            {name} sees every customer twice in the report
            primary key violated in fact table {feed}
            retry of load {id} appended again
            duplicates since the backfill of {date}
            """,
        ),
        situation(
            "job runs out of memory",
            "spark | production | transformation",
            """
            0.90 repartition by key and broadcast the small table
            0.48* give the executors more memory
            0.20 run the job again
            0.15 take a sample of the data
            """,
            """
            ExecutorLostFailure: container killed by YARN, {n} GB of {n} GB used
            join on {column} blows up, one task takes all
            java.lang.OutOfMemoryError: GC overhead limit exceeded in stage {n}
            {feed} aggregation dies at 99%
            skewed key {column}, a single reducer spills forever
            {name}'s nightly transform crashed with heap space
            spark app {id} lost {n} executors
            shuffle of {feed} too large for the cluster
            """,
        ),
        situation(
            "warehouse query is too slow",
            "snowflake | production | transformation",
            """
            0.89 cluster the table on the filter column and prune partitions
            0.52* use a bigger warehouse
            0.30 add a distinct to the query
            0.18 run it at night
            """,
            """
            model {feed}_wide takes {n} minutes now
            full scan over {feed}, {n} TB read
            dashboards of {name} time out at {time}
            bytes scanned 100%, partitions pruned 0 on {feed}
            statement {id} exceeded its limit of {n} s
            the morning build finishes after lunch
            query profile shows TableScan on {feed} as the hog
            credits burnt by one select on {column}
            """,
        ),
        situation(
            "stream falls behind",
            "kafka | production | streaming",
            """
            0.91 add partitions and consumers in the same group
            0.50* restart the consumers
            0.25 raise the batch size
            0.08 skip to the newest offset
            """,
            """
            consumer lag of {feed} at {big} and rising
            events of {feed} show up {n} minutes late
            offset of group {feed}-sink does not move
            {name}: the live board is stale since {time}
            backlog on topic {feed}, producers faster than we are
            rebalance storm in {feed}-sink, nothing committed
            queue depth alert {big} messages
            near-real-time is now two hours old
            """,
        ),
        situation(
            "access to the bucket is denied",
            "aws | production | access",
            """
            0.93 attach the read policy to the job's role
            0.45* run the job again
            0.30 use the key of a colleague
            0.12 make the bucket public
            """,
            """
            AccessDenied when calling GetObject on {feed}
            403 from storage for role etl-{feed}
            {name}'s new dag may not read the landing zone
            credentials expired for the {feed} export
            not authorized to perform s3:ListBucket
            permission error since the account move on {date}
            loader {id}: forbidden
            kms decrypt refused, {feed} unreadable
            """,
        ),
    ),
    notes=lines(
        """
        The data catalogue is reviewed every quarter with {name}
        Dashboards use the colour-blind palette
        Finance closes the books on the {n}th
        {name} owns the customer dimension
        Naming: snake case, plural for facts
        The data guild meets on Thursdays at {time}
        Budget for cloud this year is {amount}
        """
    ),
    errands=errands(
        """
        document the {feed} table -> generate docs from the model files
        present the numbers of {date} to the board -> five slides with one message each
        interview a candidate for analytics -> give the take-home exercise
        rename the metric as {name} asked -> announce it a week before
        """
    ),
    errors=lines(
        """
        Task failed with exception, marking as UP_FOR_RETRY
        AirflowException: job {id} ended with state FAILED
        the test is red again on {date}
        Py4JJavaError: An error occurred while calling o{n}.collect
        consumers complained at {time}
        """
    ),
    places={
        "feed": ("clickstream", "orders", "inventory", "crm_contacts", "ledger", "weather", "ad_spend"),
        "column": ("customer_id", "net_price", "updated_at", "country", "sku", "channel"),
    },
)

SALES = KindOfWork(
    "sales",
    (
        situation(
            "prospect says it is too expensive",
            "hubspot | smb | negotiation",
            """
            0.86 show what the present way costs them per month
            0.50* give a discount of fifteen percent
            0.22 send the feature list
            0.10 push for a signature this week
            """,
            """
            {company} says {amount} is over budget
            {name} finds us pricey compared with what they have
            "nice, but we can't justify that spend"
            price objection in call {id}
            their cfo wants {percent} off
            quote {id} came back with a sad smiley about the total
            cheaper offer on the table at {company}
            not in this year's budget, says purchasing
            """,
        ),
        situation(
            "prospect went silent",
            "hubspot | smb | follow-up",
            """
            0.85 send a short message with one question and a way out
            0.48* call again every second day
            0.30 send the feature list
            0.15 give a discount of fifteen percent
            """,
            """
            no answer from {company} since {date}
            {name} ghosted after the demo
            proposal {id} opened {n} times, zero replies
            deal {id} stale for {n} days
            left three voicemails, nothing
            champion at {company} stopped reacting
            was hot in spring, now radio silence
            follow-up due: they just don't write back
            """,
        ),
        situation(
            "security questionnaire",
            "drive | enterprise | compliance",
            """
            0.93 answer from the approved library and attach the audit report
            0.52* fill it in by hand from memory
            0.20 ask them to read the website
            0.25 send the feature list
            """,
            """
            {company} sent {n} questions about encryption and access
            infosec of {name} wants our SOC 2
            vendor risk assessment {id} due {date}
            "please complete the attached sheet, tab {n}"
            they need a pen test summary before procurement goes on
            gdpr annex and data flow diagram requested
            third-party review portal invite from {company}
            compliance gate at {company}: where is data stored
            """,
        ),
        situation(
            "legal wants changes to the contract",
            "docusign | enterprise | contract",
            """
            0.90 bring both lawyers into one call with a list of three points
            0.50* send redlines back and forth by mail
            0.15 push for a signature this week
            0.28 accept all of their terms
            """,
            """
            {company} redlined the liability clause
            counsel of {name} rejects our MSA
            paper {id} is stuck between the attorneys
            indemnity cap: they ask for {amount}
            version {n} of the agreement, still not agreed
            their lawyers want their own template
            termination for convenience is the blocker at {company}
            dpa wording under dispute since {date}
            """,
        ),
        situation(
            "competitor is in the deal",
            "hubspot | enterprise | negotiation",
            """
            0.87 offer a two-week trial on their own data
            0.48* send a comparison table
            0.25 give a discount of fifteen percent
            0.12 talk about the weaknesses of the other one
            """,
            """
            {company} also looks at {rival}
            {name} mentioned a parallel evaluation with {rival}
            shortlist of two: us and {rival}
            "what do you do better than {rival}?"
            bake-off announced, decision on {date}
            incumbent {rival} matched our offer
            rfp {id} with {n} vendors invited
            they got a pitch from the other guys yesterday
            """,
        ),
        situation(
            "nobody decides at the customer",
            "gong | enterprise | qualification",
            """
            0.88 ask the champion to bring the budget owner into the next call
            0.50* give another demo to the users
            0.20 push for a signature this week
            0.30 send the feature list
            """,
            """
            {name} likes it but has to ask upstairs
            who signs at {company}? unknown after {n} meetings
            committee of {n} people, none responsible
            "I need to run this by my boss"
            opportunity {id}: no economic buyer identified
            our contact can't approve {amount}
            decision postponed again, nobody owns it
            users thrilled, management absent
            """,
        ),
        situation(
            "renewal at risk",
            "hubspot | existing customers | renewal",
            """
            0.89 show the usage report and fix the top complaint first
            0.50* give a discount of fifteen percent
            0.25 give another demo to the users
            0.12 remind them of the notice period
            """,
            """
            {company} uses {percent} of its seats, contract ends {date}
            health score of account {id} red
            {name} unhappy with onboarding, term runs out soon
            customer since {n} years thinks about leaving
            logins down {percent} quarter over quarter at {company}
            "we will probably not extend"
            csm warns: extension of {company} shaky
            annual re-sign in {n} weeks, mood bad
            """,
        ),
    ),
    notes=lines(
        """
        The kick-off is in Denver, hotel booked for {n} nights
        {name} covers the Nordics from {date}
        New logo on slides as of this month
        Quota letters were signed on {date}
        The best time for internal calls is {time}
        Commission is paid with the salary of the next month
        {name} won the quarter's prize
        """
    ),
    errands=errands(
        """
        prepare the forecast call of {date} -> update all stages the evening before
        order business cards for {name} -> use the online shop of the printer
        plan the booth at the fair in {date} -> take the corner with the screen
        clean up contacts in the crm -> merge duplicates by domain
        """
    ),
    errors=lines(
        """
        deal lost, reason not given
        no reply within {n} days
        they signed with somebody else
        moved to next quarter by {name}
        meeting declined
        """
    ),
    places={
        "company": ("Norlake", "Bright Foods", "Hansen Logistics", "Orbitel", "Medivia", "Castor Bank", "Tilia Homes"),
        "rival": ("Zendra", "Flowpoint", "Kestrel", "OneDesk"),
    },
)

RESEARCH = KindOfWork(
    "research assistant",
    (
        situation(
            "paper is behind a paywall",
            "browser | library | literature",
            """
            0.90 look for the preprint and the author's page
            0.50* request it through the library
            0.12 cite it from the abstract
            0.25 use a similar paper instead
            """,
            """
            only the abstract of {author} {year} is accessible
            publisher wants {amount} for the pdf
            403 on the article about {topic}
            no subscription for this journal, need full text
            "{topic}" by {author}: purchase access
            {name} can't open the reference, licence missing
            doi resolves to a login page
            closed access, methods section needed by {date}
            """,
        ),
        situation(
            "citation cannot be found",
            "zotero | library | verification",
            """
            0.91 search the title in two bibliographic databases and check the doi
            0.48* trust the reference list of another paper
            0.18 cite it from the abstract
            0.28 ask the author by mail
            """,
            """
            {author} {year} does not seem to exist
            reference [{n}] leads nowhere
            the model quoted a study on {topic}, I can't locate it
            doi {id} not registered
            bibliography entry without volume or pages
            {name} flagged a phantom source in the draft
            journal and year don't match for "{topic}"
            who first claimed this? secondary quote only
            """,
        ),
        situation(
            "two sources disagree",
            "notebook | desk | synthesis",
            """
            0.88 compare samples and definitions and report both with the reason
            0.50* take the newer one
            0.25 take the one with more citations
            0.15 leave the number out
            """,
            """
            {author} reports {percent}, others half of that
            conflicting effect sizes for {topic}
            figure {n} contradicts the review
            which estimate is right? the gap is {percent}
            meta-analysis vs trial on {topic}: opposite signs
            {name} asks why our table differs from {author}
            numbers don't line up across papers
            inconsistent prevalence, {year} and later
            """,
        ),
        situation(
            "data set has gaps",
            "pandas | cluster | analysis",
            """
            0.90 impute several times and report the sensitivity
            0.52* drop the incomplete rows
            0.20 fill in the mean
            0.10 ask the author by mail
            """,
            """
            {percent} of values in {topic} survey are NaN
            missing entries for wave {n}
            participants left blanks in the questionnaire
            columns half empty in the {topic} file
            attrition: {n} subjects without follow-up
            {name}: what about the holes in the table?
            nulls in the outcome variable
            sensor outage, no readings on {date}
            """,
        ),
        situation(
            "result does not replicate",
            "python | cluster | analysis",
            """
            0.87 rerun with the authors' code and pinned versions
            0.48* try other random seeds
            0.22 take the one with more citations
            0.30 ask the author by mail
            """,
            """
            can't get their accuracy of {percent} on {topic}
            our rerun of {author} {year} gives {percent}
            reproduction attempt {n} far off
            coefficient has the other sign in my script
            table {n} not reproducible from the shared repo
            {name} wonders why the baseline is so low
            p = 0.{n} instead of 0.01 with the same data
            numbers vary from run to run, never what's printed
            """,
        ),
        situation(
            "search returns too much",
            "scholar | library | literature",
            """
            0.89 narrow by a controlled vocabulary and exclude reviews
            0.50* read the first page of hits
            0.20 take the one with more citations
            0.15 use a similar paper instead
            """,
            """
            {big} hits for {topic}
            query on {topic} is far too broad
            drowning in papers, {name} wants a shortlist by {date}
            screening {big} abstracts is impossible
            keyword matches everything
            noise in the results: mostly unrelated fields
            how to cut the list for the scoping review
            boolean string brings half of pubmed
            """,
        ),
        situation(
            "reviewer asks for another analysis",
            "word | desk | revision",
            """
            0.90 run it, put it in the appendix and quote it in the reply
            0.50* argue that it is out of scope
            0.15 leave the number out
            0.28 add a sentence to the limitations
            """,
            """
            referee {n} wants a robustness check on {topic}
            "please control for age and region"
            comment {n}.{n}: additional model requested
            major revision, due {date}
            they demand a power calculation
            R2 not convinced by figure {n}
            editor's letter: extend the evaluation
            {name} forwards the second round of remarks
            """,
        ),
    ),
    notes=lines(
        """
        Group meeting moved to Tuesday {time}
        {name} defends the thesis on {date}
        The grant report has a limit of {n} pages
        The lab fridge is shared with the second floor
        Authors are listed alphabetically in this group
        The conference deadline is {date}
        {name} prefers serif fonts in posters
        """
    ),
    errands=errands(
        """
        book a poster print for {date} -> send the pdf to the copy shop
        reimburse the trip of {name} -> fill in the travel form with receipts
        set up the reading group -> one paper a week with a rotating host
        update the group's web page -> edit the markdown file
        """
    ),
    errors=lines(
        """
        supervisor sent it back
        reader found the mistake on page {n}
        KeyError: '{topic}'
        not accepted by the reviewer
        took {n} hours without a result
        """
    ),
    places={
        "author": ("Lindqvist", "Okafor", "Tanaka et al.", "Moreau", "Silva & Cho", "Petrov"),
        "topic": (
            "sleep and memory",
            "urban heat",
            "soil carbon",
            "reading skills",
            "vaccine uptake",
            "battery ageing",
        ),
        "year": ("2009", "2014", "2017", "2019", "2021", "2023"),
    },
)

ROBOTICS = KindOfWork(
    "robotics shop floor",
    (
        situation(
            "gripper drops parts",
            "gripper | cell | picking",
            """
            0.91 replace the suction cups and raise the vacuum
            0.50* slow the arm down
            0.20 calibrate the camera
            0.12 reset the controller
            """,
            """
            robot {n} lets go of {part} on the way
            {part} slipped, third time this shift
            vacuum low alarm, pick lost at station {n}
            grip failure {id}
            {name} found {n} housings on the floor of cell {n}
            payload fell during transfer
            hold confirmation missing after pick
            arm comes back empty, {part} lies on the belt
            """,
        ),
        situation(
            "camera misses parts",
            "vision | cell | picking",
            """
            0.90 calibrate the camera and clean the lens
            0.48* lower the detection threshold
            0.22 slow the arm down
            0.15 reset the controller
            """,
            """
            vision does not see {part} in the bin
            no match found, score 0.{n}
            detection rate {percent} since the new lights
            {part} recognised {n} mm off
            {name}: the robot reaches beside it
            image too dark at station {n}
            pose estimate jumps, picks next to {part}
            bin shows parts, system says empty
            """,
        ),
        situation(
            "emergency stop tripped",
            "plc | line | safety",
            """
            0.93 walk the zone, clear the light curtain and restart step by step
            0.50* acknowledge and restart
            0.10 bridge the sensor
            0.25 call the manufacturer
            """,
            """
            E-stop active on line {n}
            safety circuit open, door {n}
            everything halted at {time}, red lamp on
            light curtain interrupted, nobody there
            {name} pressed the button? line dead
            fault S{n}: protective stop
            whole cell frozen, guard reports open
            muting error at the conveyor entry
            """,
        ),
        situation(
            "axis overheats",
            "drive | line | maintenance",
            """
            0.89 clean the fan and check the brake
            0.52* slow the arm down
            0.20 reset the controller
            0.30 call the manufacturer
            """,
            """
            joint {n} at {n} degrees, limit soon
            motor temperature warning axis {n}
            drive derating after {n} cycles
            smells hot near robot {n}, {name} says
            thermal alarm {id} on the servo
            arm pauses every {n} minutes to cool
            overload on J{n}, current above nominal
            amplifier too warm since {time}
            """,
        ),
        situation(
            "weld seam is bad",
            "welder | line | quality",
            """
            0.88 change the contact tip and correct the gas flow
            0.50* raise the current
            0.25 slow the arm down
            0.12 grind it by hand
            """,
            """
            porosity in the bead of {part}
            seam {n} fails the bend test
            spatter everywhere, cell {n}
            undercut at the corner of {part}, lot {id}
            {name} rejected {n} frames for joint quality
            arc unstable since {time}
            x-ray shows holes in batch {id}
            wire sticks, irregular bead
            """,
        ),
        situation(
            "conveyor jams",
            "conveyor | line | flow",
            """
            0.92 clear the guide rail and check the tension
            0.48* acknowledge and restart
            0.15 raise the current
            0.28 slow the belt down
            """,
            """
            belt {n} stands still, {part} wedged
            photo eye {n} blocked for {n} s
            pile-up before the packing station
            motor pulls, band does not move
            {name} pulls boxes out of transfer {n}
            jam alarm {id} at the merge
            {part} crosswise in the chute
            backlog on the line, upstream full
            """,
        ),
        situation(
            "mobile robot is lost",
            "fleet manager | hall | transport",
            """
            0.90 drive it to a marker and localise again
            0.50* reset the controller
            0.20 clean the fan and check the brake
            0.12 call the manufacturer
            """,
            """
            AMR {n} localization lost
            vehicle {n} stands in aisle {n} and spins
            agv off the map since pallets were moved
            position uncertainty {n} m, unit {n}
            {name}: cart doesn't find the dock
            scan does not match map at gate {n}
            transport {id} aborted, robot doesn't know where it is
            shuttle took a wrong turn and stopped
            """,
        ),
    ),
    notes=lines(
        """
        Shift handover is at {time} at the board
        {name} is the first-aider in hall {n}
        Safety shoes are replaced every year
        The audit visits on {date}
        Spare keys hang in the foreman's office
        Hall {n} is heated from October on
        Visitors wear a yellow vest
        """
    ),
    errands=errands(
        """
        order gloves size {n} -> order from the catalogue
        show visitors hall {n} -> take the marked path
        count the stock of {part} on {date} -> count by two people
        train {name} on the forklift -> book the external course
        """
    ),
    errors=lines(
        """
        stopped again after {n} minutes
        alarm {id} is back
        scrap: {n} pieces
        line manager called at {time}
        cycle time above target
        """
    ),
    places={"part": ("bracket", "housing", "gear ring", "door panel", "valve body", "rail clip")},
)

KINDS = (SOFTWARE, SUPPORT, PIPELINES, SALES, RESEARCH, ROBOTICS)
