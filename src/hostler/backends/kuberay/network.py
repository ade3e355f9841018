"""Who may talk to whom: NetworkPolicies, as narrow as what runs needs them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.backends.kuberay import objects as k, pods
from hostler.settings.kuberay import KubeNetwork, KubePeer, Kuberay

OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
"""How KubeRay's Helm chart labels the operator."""
OPERATOR_PORTS = (8265, 52365)
"""Ray's dashboard, where jobs are submitted, and its agent."""
NAMESPACE = "kubernetes.io/metadata.name"
"""A label that every namespace has, with its name."""
DNS, OPENSHIFT_DNS = 53, 5353
"""On OpenShift names are looked up at a service of 53 whose pods listen on 5353, which is what policies see."""
API_PORTS = (443, 6443)


def ray_policy(asked: Kuberay, network: KubeNetwork) -> k.NetworkPolicySpec:
    """Ray pods talk to each other, and to whom the settings name; the operator talks to them."""
    own = k.Peer(pod_selector=k.AnySelector(match_labels=pods.of_instance(asked)))
    ingress = (k.Ingress(from_=(own,)), k.Ingress(from_=(_operator(network),), ports=_ports(OPERATOR_PORTS)))
    egress = [k.Egress(to=(own,)), k.Egress(ports=_dns(asked)), *_reached(network)]
    if asked.autoscaling:
        egress.append(k.Egress(ports=_ports(API_PORTS)))
    return k.NetworkPolicySpec(
        pod_selector=k.Selector(match_labels=pods.of_ray(asked)),
        policy_types=("Ingress", "Egress"),
        ingress=ingress,
        egress=tuple(egress),
    )


def dashboard_policy(asked: Kuberay, component: str, port: int) -> k.NetworkPolicySpec:
    """Anybody may ask for pages, which want a token; nobody reaches another port."""
    return k.NetworkPolicySpec(
        pod_selector=k.Selector(match_labels={**pods.of_instance(asked), pods.COMPONENT: component}),
        policy_types=("Ingress",),
        ingress=(k.Ingress(ports=_ports((port,))),),
    )


def _operator(network: KubeNetwork) -> k.Peer:
    named = network.operator_namespace
    where = k.AnySelector() if named is None else k.AnySelector(match_labels={NAMESPACE: named})
    return k.Peer(namespace_selector=where, pod_selector=k.AnySelector(match_labels=OPERATOR))


def _reached(network: KubeNetwork) -> Iterator[k.Egress]:
    for each in network.reach:
        yield k.Egress(to=(_peer(each),), ports=_ports(each.ports) or None)


def _peer(each: KubePeer) -> k.Peer:
    if each.cidr is not None:
        return k.Peer(ip_block=k.IpBlock(cidr=each.cidr))
    where = None if each.namespace is None else k.AnySelector(match_labels={NAMESPACE: each.namespace})
    which = k.AnySelector(match_labels=dict(sorted(each.labels.items()))) if each.labels else None
    return k.Peer(namespace_selector=where, pod_selector=which)


def _dns(asked: Kuberay) -> tuple[k.Port, ...]:
    ports = (DNS, OPENSHIFT_DNS) if asked.openshift else (DNS,)
    return tuple(k.Port(protocol=protocol, port=port) for port in ports for protocol in ("UDP", "TCP"))


def _ports(numbers: tuple[int, ...]) -> tuple[k.Port, ...]:
    return tuple(k.Port(port=number) for number in numbers)
