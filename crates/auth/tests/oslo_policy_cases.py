"""Generates the cases of `reference.rs` with the reference and oslo.policy.

Prints identities for random headers, and what random policy files allow them. Needs a Python with
openstack-placement 16.0.0 installed:

    python3 tests/oslo_policy_cases.py > tests/data/oslo_policy_cases.json
"""

import json
import logging
import os
import random
import sys
import tempfile
import warnings

from oslo_config import cfg
from oslo_policy import opts as policy_opts
from oslo_policy import policy
import webob

from placement import auth
from placement import policies

RULES = [
    'placement:traits:list',
    'placement:usages',
    'placement:reshaper:reshape',
    'placement:resource_providers:inventories:update',
]
BASE = ['admin_api', 'service_api', 'admin_or_service_api', 'project_reader_api',
        'admin_or_project_reader_or_service_api']
# The targets of the operations: the caller's own project and user, a project, no project.
TARGETS = ['own', {'project_id': 'p1'}, {'project_id': None}]
ATOMS = [
    '@', '!', 'role:admin', 'role:ADMIN', 'role:reader', 'role:service', 'role:%(project_id)s',
    'role:x-%(user_id)s', 'role:', 'rule:admin_api', 'rule:project_reader_api', 'rule:extra',
    'rule:other', 'rule:admin_or_service_api', 'project_id:%(project_id)s', 'user_id:%(user_id)s',
    'user_id:admin', 'user_id:', 'project_id:p%%%(project_id)s', "'admin':%(user_id)s",
    '"p1":%(project_id)s', 'None:%(project_id)s', 'None:None', 'True:True', 'False:True', '1:1',
    '-1:-1', '+1:1', '-0:0', '00:0', 'domain_id:None', 'project_id:None', 'system_scope:all',
    'system:all', 'is_admin_project:True', 'is_admin_project:False', 'is_admin:True',
    'roles:admin', 'roles:Admin', 'service_roles:service', 'service_user_id:nova',
    'service_project_id:None', 'tenant:%(project_id)s', 'user_domain_id:d1',
    'project_id:%(nope)s', 'role:%(nope)s', "'':", 'user.id:admin', 'user_id:a:b', "'p1':p1",
    'user_domain_id:%(project_id)s', 'project_domain_id:%(user_id)s',
]
# Checks that are not valid in the policy language, or that this crate refuses.
BROKEN = ['admin', "'admin'", '"role:admin"', 'not', 'and', '(', ')', '()', 'rule:nowhere',
          'project_id:%(project_id)d', 'project_id:100%', 'user_id:%s', '01:1', ':x',
          'http://localhost/%(user_id)s', 'https://localhost/', "'a':'a'", "'open:x", '1x:1']


class ComplaintHandler(logging.Handler):
    """Collects what oslo.policy logs about a policy file."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        text = record.getMessage()
        if 'are the same as the defaults' not in text:
            self.found.append(text)


def expression(rng, depth, broken):
    """A random rule, with invalid checks in it if `broken`."""
    roll = rng.random()
    if depth == 0 or roll < 0.3:
        if broken and rng.random() < 0.15:
            return rng.choice(BROKEN)
        return rng.choice(ATOMS)
    if roll < 0.45:
        return rng.choice(['not ', 'NOT  ', 'Not\t']) + expression(rng, depth - 1, broken)
    if roll < 0.65:
        inner = expression(rng, depth - 1, broken)
        return rng.choice(['(%s)', '( %s )', '((%s) )']) % inner
    parts = [expression(rng, depth - 1, broken) for _ in range(rng.randint(2, 4))]
    text = parts[0]
    for part in parts[1:]:
        text += rng.choice([' and ', ' or ', ' AND ', ' Or ']) + part
    return text


def value(rng, broken):
    """The value of a rule in a file: an expression, or the older form of lists."""
    if rng.random() < 0.15:
        return [rng.choice([[], rng.choice(ATOMS), [rng.choice(ATOMS)],
                            [rng.choice(ATOMS), rng.choice(ATOMS)]])
                for _ in range(rng.randint(0, 3))]
    text = expression(rng, rng.randint(0, 4), broken)
    if broken and rng.random() < 0.2:
        at = rng.randrange(len(text))
        text = text[:at] + text[at + 1:]
    return rng.choice([text] * 12 + [''])


def policy_file(rng):
    broken = rng.random() < 0.3
    rules = {}
    names = rng.sample(RULES, rng.randint(0, 3)) + rng.sample(BASE, rng.choice([0, 0, 1, 2]))
    for name in names:
        rules[name] = value(rng, broken)
    if rng.random() < 0.2:
        rules['rule:admin_api'] = rng.choice(
            ['role:admin', 'role:reader', 'rule:service_api', '@', 'rule:extra'])
    # Rules to which others may refer; they have no cycles.
    rules['extra'] = rng.choice(['role:reader', 'user_id:%(user_id)s', 'rule:other'])
    rules['other'] = rng.choice(['role:member', '!', 'project_id:p2'])
    return rules


def random_headers(rng):
    headers = []

    def add_with_chance(name, values, chance):
        if rng.random() < chance:
            headers.append((name, rng.choice(values)))

    add_with_chance('X-Auth-Token', ['admin', 'admin:p1', 'user', 'user:', 'user:p1', 'user:p2:x', '', ':p1',
                           'Admin', 'admin:admin'], 0.95)
    add_with_chance('X-Roles', ['admin', 'ADMIN', 'reader', 'service', 'member,reader', ' admin , reader ', '',
                      ',', 'p1', 'x-user', 'admin,service', 'Reader'], 0.7)
    add_with_chance('X-Role', ['admin'], 0.1)
    add_with_chance('X-Project-Id', ['p1', 'p2', ''], 0.4)
    add_with_chance('X-Tenant-Id', ['p1', 'tenant'], 0.15)
    add_with_chance('X-Tenant', ['p1', 'old'], 0.1)
    add_with_chance('OpenStack-System-Scope', ['all', ''], 0.12)
    add_with_chance('X-Domain-Id', ['d1', ''], 0.12)
    add_with_chance('X-User-Domain-Id', ['d1'], 0.3)
    add_with_chance('X-Project-Domain-Id', ['d2', 'user'], 0.3)
    add_with_chance('X-User-Id', ['somebody'], 0.1)
    add_with_chance('X-Is-Admin-Project', ['True', 'true', 'False', 'no'], 0.2)
    add_with_chance('X-Service-Roles', ['service', 'service,other', ''], 0.2)
    add_with_chance('X-Service-User-Id', ['nova'], 0.2)
    add_with_chance('X-Service-Project-Id', ['services'], 0.1)
    return headers


def context(headers):
    """The reference's context for these headers, or None where it answers 401."""
    found = []

    @webob.dec.wsgify
    def application(request):
        found.append(request.environ['placement.context'])
        return webob.Response()

    stack = auth.NoAuthMiddleware(auth.PlacementKeystoneContext(application))
    request = webob.Request.blank('/resource_providers', headers=headers)
    response = request.get_response(stack)
    return found[0] if response.status_int == 200 else None


def enforcer(directory, rules, enforce_new_defaults, complaint_handler):
    config = cfg.ConfigOpts()
    policy_opts._register(config)
    path = os.path.join(directory, 'policy.json')
    with open(path, 'w') as file:
        json.dump(rules, file)
    config([], default_config_files=[], default_config_dirs=[])
    config.set_override('policy_file', path, group='oslo_policy')
    config.set_override('policy_dirs', [], group='oslo_policy')
    config.set_override('enforce_new_defaults', enforce_new_defaults, group='oslo_policy')
    complaint_handler.found.clear()
    policy_enforcer = policy.Enforcer(config)
    policy_enforcer.suppress_default_change_warnings = True
    policy_enforcer.suppress_deprecation_warnings = True
    policy_enforcer.register_defaults(policies.list_rules())
    policy_enforcer.load_rules()
    return policy_enforcer, list(complaint_handler.found)


def answer(policy_enforcer, rule, target, ctx):
    """'1' if the rule allows, '0' if it refuses, 'x' if its evaluation fails."""
    if target == 'own':
        target = {'project_id': ctx.project_id, 'user_id': ctx.user_id}
    try:
        return '1' if policy_enforcer.authorize(rule, target, ctx) else '0'
    except Exception:
        return 'x'


def main():
    warnings.simplefilter('ignore')
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    complaint_handler = ComplaintHandler()
    for name in ('oslo_policy', 'placement'):
        logger = logging.getLogger(name)
        logger.addHandler(complaint_handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    identities = []
    contexts = []
    while len(identities) < 40:
        headers = random_headers(rng)
        ctx = context(headers)
        values = None
        if ctx is not None:
            values = {k: v for k, v in ctx.to_policy_values().items()}
        identities.append({'headers': headers, 'values': values})
        contexts.append(ctx)
    cases = []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(count):
            # The first two files are empty: one without and one with the new defaults.
            rules = policy_file(rng) if number > 1 else {}
            new = rng.random() < 0.5 if number > 1 else bool(number)
            complaints = []
            try:
                policy_enforcer, complaints = enforcer(directory, rules, new, complaint_handler)
            except Exception as error:
                complaints = [repr(error)]
            case = {'enforce_new_defaults': new, 'rules': rules, 'refused': bool(complaints)}
            if not complaints:
                case['answers'] = [
                    None if ctx is None else ''.join(
                        answer(policy_enforcer, rule, target, ctx) for rule in RULES for target in TARGETS)
                    for ctx in contexts]
            cases.append(case)
    lines = [json.dumps(case, separators=(',', ':')) for case in cases]
    identity_lines = [json.dumps(case, separators=(',', ':')) for case in identities]
    print('{"rules":%s,"targets":%s,"identities":[\n%s\n],"cases":[\n%s\n]}' % (
        json.dumps(RULES), json.dumps(TARGETS), ',\n'.join(identity_lines), ',\n'.join(lines)))


if __name__ == '__main__':
    main()
