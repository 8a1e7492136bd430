"""What a member tells in one step: requests with their tokens, and the rest."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.core.membership import instructions, requests, search, standing
from connect_runtime.core.membership import settings as membership
from connect_runtime.wire.codec import messages, targets


@dataclass(slots=True, kw_only=True)
class Outbox:
    """Requests go to `search.node`, which must be known, on behalf of `generation`."""

    settings: membership.Settings
    search: search.Search
    generation: standing.Generation = field(default_factory=standing.Generation)
    _tokens: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _told: list[instructions.Instruction] = field(default_factory=list)

    def take(self) -> list[instructions.Instruction]:
        """Everything since the last time, in order."""
        told, self._told = self._told, []
        return told

    def tell(self, instruction: instructions.Instruction) -> None:
        self._told.append(instruction)

    def note(self, text: str) -> None:
        self.tell(instructions.Note(f"group {self.settings.group_id}: {text}"))

    # Each returns the token of its answer

    def prepare(self) -> int:
        token = next(self._tokens)
        self.tell(instructions.PrepareJoin(token))
        return token

    def find(self) -> int:
        timeout_s = self.settings.request_timeout_s
        return self._send(
            self.search.message(), targets.AnyNode(), lane=instructions.BEATING, timeout_s=timeout_s
        )

    def join(self, protocols: Sequence[tuple[str, bytes]], *, reason: str) -> int:
        message = requests.join_group(
            self.settings.group_id,
            member_id=self.generation.member_id,
            protocol_type=self.settings.protocol_type,
            protocols=protocols,
            session_timeout_s=self.settings.session_timeout_s,
            rebalance_timeout_s=self.settings.rebalance_timeout_s,
            reason=reason,
        )
        return self._send_in_round(message)

    def sync(self, answers: Mapping[str, bytes]) -> int:
        message = requests.sync_group(
            self.settings.group_id,
            member_id=self.generation.member_id,
            generation=self.generation.number,
            protocol_type=self.settings.protocol_type,
            protocol=self.generation.protocol,
            answers=answers,
        )
        return self._send_in_round(message)

    def heartbeat(self) -> int:
        message = requests.heartbeat(
            self.settings.group_id,
            member_id=self.generation.member_id,
            generation=self.generation.number,
        )
        return self._send_besides(message)

    def leave(self, reason: str) -> int:
        message = requests.leave_group(
            self.settings.group_id, member_id=self.generation.member_id, reason=reason
        )
        return self._send_besides(message)

    def _send_in_round(self, message: messages.Message) -> int:
        return self._send(
            message,
            self._coordinator,
            lane=instructions.JOINING,
            timeout_s=self.settings.join_timeout_s,
        )

    def _send_besides(self, message: messages.Message) -> int:
        return self._send(
            message,
            self._coordinator,
            lane=instructions.BEATING,
            timeout_s=self.settings.session_timeout_s,
        )

    @property
    def _coordinator(self) -> targets.Target:
        assert self.search.node is not None
        return targets.Node(self.search.node)

    def _send(
        self, message: messages.Message, to: targets.Target, *, lane: str, timeout_s: float
    ) -> int:
        token = next(self._tokens)
        self.tell(
            instructions.Send(token=token, to=to, message=message, lane=lane, timeout_s=timeout_s)
        )
        return token
